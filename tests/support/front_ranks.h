// The processes of a running `lockstep train`, as a test of faults finds and watches them.
#pragma once
#include <charconv>
#include <filesystem>
#include <string>

#include "tests/support/run_program.h"

namespace lockstep::test {

/// Ended, or only waiting for init to look after it.
inline bool is_gone(int pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  return stat.empty() || stat.find(") Z ") != std::string::npos;
}

/// The child of `front` whose `file` in /proc holds `text`; 0 when there is none.
inline int find_child(int front, const std::string& file, const std::string& text) {
  const std::string parent = "\nPPid:\t" + std::to_string(front) + "\n";
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    std::from_chars(name.data(), name.data() + name.size(), pid);
    if (pid == 0 || read_file(entry.path() / "status").find(parent) == std::string::npos) continue;
    if (read_file(entry.path() / file).find(text) != std::string::npos) return pid;
  }
  return 0;
}

/// The worker process that `front` started as `rank`; 0 when there is none.
inline int find_rank(int front, int rank) {
  return find_child(front, "environ", std::string(1, '\0') + "RANK=" + std::to_string(rank) + '\0');
}

}  // namespace lockstep::test
