#include "lockstep/base/limits.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstdint>
#include <new>
#include <system_error>

#include "lockstep/base/units.h"

namespace lockstep {
namespace {

struct Limit {
  int resource;  // of getrlimit()
  const char* flag;
  const char* name;
};

constexpr Limit kFiles{RLIMIT_NOFILE, "ulimit -n", "open files"};
constexpr Limit kProcesses{RLIMIT_NPROC, "ulimit -u", "processes and threads of this user"};
constexpr Limit kMemory{RLIMIT_AS, "ulimit -v", "memory of a process"};

const Limit& limit_of(int code) {
  if (code == EMFILE || code == ENFILE) return kFiles;
  return code == EAGAIN ? kProcesses : kMemory;
}

/// What the limit is now. A thread also fails for want of address space, so EAGAIN tells of both.
std::string present(const Limit& limit) {
  rlimit value{};
  const bool known = ::getrlimit(static_cast<__rlimit_resource_t>(limit.resource), &value) == 0;
  if (!known || value.rlim_cur == RLIM_INFINITY) return "none";
  if (limit.resource == RLIMIT_AS) return format_bytes(static_cast<std::int64_t>(value.rlim_cur));
  return std::to_string(value.rlim_cur);
}

std::string described(const Limit& limit) {
  return std::string(limit.name) + " (" + limit.flag + ", now " + present(limit) + ")";
}

}  // namespace

EnvironmentFault limit_fault(const std::string& what, int code) {
  const Limit& limit = limit_of(code);
  std::string fix = "raise the limit on " + described(limit);
  if (code == EAGAIN) fix += " or on " + described(kMemory);
  if (limit.resource == RLIMIT_AS) fix += ", or free memory of the machine";
  return EnvironmentFault(
      {"LS-3007", "this process", what + ": " + std::generic_category().message(code), fix});
}

std::optional<EnvironmentFault> limit_fault_of(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return limit_fault("out of memory", ENOMEM);
  }
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  if (system == nullptr) return std::nullopt;
  const int code = system->code().value();
  if (code == EAGAIN) return limit_fault("no new thread or process can be made", code);
  if (code == ENOMEM) return limit_fault("out of memory", code);
  if (code == EMFILE || code == ENFILE) return limit_fault("no more files can be opened", code);
  return std::nullopt;
}

}  // namespace lockstep
