// Ranks that an earlier job has left on this machine: their launcher is gone, and they go on.
#pragma once
#include <string>
#include <vector>

namespace lockstep::launch {

struct Leftover {
  int pid = 0;
  std::string command;  // its arguments, cut where they are long
  std::string run_id;   // of its job
  double age_s = 0;     // since its start
};

/// Processes of this user that torchrun's variables make ranks, or descendants of ranks, and whose
/// parent is what takes in orphans: process 1 or a manager of services, unless that is a launcher
/// itself. Looks at /proc alone, and ends nothing. \param proc a folder like it.
[[nodiscard]] std::vector<Leftover> find_leftovers(const std::string& proc = "/proc");

/// "left over from an earlier job: ...", with what ends it; for people.
[[nodiscard]] std::string to_text(const Leftover& leftover);

}  // namespace lockstep::launch
