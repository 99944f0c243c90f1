// What a test allows its own process, and what the process has taken.
#pragma once
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace lockstep::test {

/// The limit of open files of this process, until the end of the scope.
class FileLimit {
 public:
  explicit FileLimit(std::size_t files) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit lower = before_;
    lower.rlim_cur = files;
    ::setrlimit(RLIMIT_NOFILE, &lower);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

inline std::size_t resident_kib() {
  std::ifstream in("/proc/self/statm");
  std::size_t pages = 0;
  in >> pages >> pages;
  return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) / 1024;
}

/// By how much it may grow where `kib` is enough: sanitizers hold freed memory back.
constexpr std::size_t growth_kib(std::size_t kib) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  return kib + std::size_t{512} * 1024;
#else
  return kib;
#endif
}

}  // namespace lockstep::test
