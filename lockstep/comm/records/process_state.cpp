#include "lockstep/comm/records/process_state.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "lockstep/topology/proc_text.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kStartField = 19;  // starttime is field 22; the first after the name is 3

/// What follows the process's name, which may itself hold blanks and brackets.
std::vector<std::string> fields_after_name(std::string_view stat) {
  const auto end = stat.rfind(") ");
  if (end == std::string_view::npos) return {};
  return split(stat.substr(end + 2), ' ');
}

std::int64_t start_ticks_of(const std::vector<std::string>& fields) {
  if (fields.size() <= kStartField) return 0;
  return leading_integer(fields[kStartField]).value_or(0);
}

std::string stat_of(std::int64_t pid) {
  return read_small_file("/proc/" + std::to_string(pid) + "/stat");
}

}  // namespace

ProcessIdentity own_identity() {
  ProcessIdentity own;
  own.pid = ::getpid();
  own.start_ticks = start_ticks_of(fields_after_name(stat_of(own.pid)));
  struct stat space {};
  if (::stat("/proc/self/ns/pid", &space) == 0) {
    own.pid_namespace = static_cast<std::int64_t>(space.st_ino);
  }
  own.boot_id = trim(read_small_file("/proc/sys/kernel/random/boot_id"));
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) own.host = host.data();
  return own;
}

ProcessLook look_at_stat(std::string_view stat, std::int64_t start_ticks) {
  constexpr ProcessLook kGone{ProcessState::gone, '-'};
  if (stat.empty()) return kGone;
  const auto fields = fields_after_name(stat);
  if (fields.empty() || fields[0].size() != 1) return {};
  if (start_ticks != 0 && start_ticks_of(fields) != start_ticks) return kGone;  // the pid is reused
  const char letter = fields[0][0];
  if (letter == 'Z' || letter == 'X') return kGone;
  const bool stopped = letter == 'T' || letter == 't';
  return {stopped ? ProcessState::stopped : ProcessState::running, letter};
}

ProcessLook look_at(const ProcessIdentity& process, const ProcessIdentity& own) {
  if (process.boot_id != own.boot_id || process.pid_namespace != own.pid_namespace) return {};
  const std::string stat = stat_of(process.pid);
  if (stat.empty() && ::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == EPERM) return {};
  return look_at_stat(stat, process.start_ticks);
}

}  // namespace lockstep::comm
