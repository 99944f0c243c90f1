// A disk that is full, read-only, slow or gone, for tests of whole programs: preloaded (LD_PRELOAD)
// it stands between a program and what the program does to the files of one folder.
//
// LOCKSTEP_TEST_DISK has rules with '|' between them, of words KEY=VALUE with ';' between them.
//
// Of all rules, in whichever they stand:
//   path=FOLDER        only calls on it and below it count; absolute and without links
//   log=FILE           every such call is a line "RANK SAVE KIND PATH"; RANK is "-" without one
//   open_delay_ms=N    every open takes that much longer
// When a rule holds (always without them):
//   rank=N             in processes with RANK=N in their environment
//   save=N             from the first call that makes something at or below .step-N.tmp until the
//                      first that does so for another step
// What then happens:
//   fail=KIND;errno=X  calls of that KIND (of kKinds; "any" is any that changes something) fail
//   after_bytes=N      ... of fail=write: once that many bytes have been written in this save
//   at=N               ... only the N-th call of this save that changes something
//   kill_at=N          the process is killed (SIGKILL) before that one
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

/// An open that does not create and a close change nothing.
enum class Kind { open, close, create, mkdir, write, fsync, rename, truncate, unlink };
constexpr std::array kKinds{"open",  "close",  "create",   "mkdir", "write",
                            "fsync", "rename", "truncate", "unlink"};

struct Rule {
  long rank = -1;
  long save = -1;
  long at = -1;
  long kill_at = -1;
  long after_bytes = -1;
  int error = 0;
  std::string fail;
};

struct Plan {
  std::string path;
  std::string log;
  long open_delay_ms = 0;
  std::vector<Rule> rules;
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

[[noreturn]] void refuse(const std::string& word) {
  ::fprintf(stderr, "disk_faults: LOCKSTEP_TEST_DISK has \"%s\"\n", word.c_str());
  ::_exit(99);
}

int error_named(const std::string& name) {
  const std::map<std::string, int> errors{
      {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EROFS", EROFS}, {"ESTALE", ESTALE}, {"EIO", EIO}};
  const auto found = errors.find(name);
  return found == errors.end() ? 0 : found->second;
}

void take(const std::string& word, Plan& plan, Rule& rule) {
  const std::size_t equals = word.find('=');
  if (equals == word.npos) refuse(word);
  const std::string key = word.substr(0, equals);
  const std::string value = word.substr(equals + 1);
  const std::map<std::string, std::string*> texts{
      {"path", &plan.path}, {"log", &plan.log}, {"fail", &rule.fail}};
  const std::map<std::string, long*> numbers{{"open_delay_ms", &plan.open_delay_ms},
                                             {"rank", &rule.rank},
                                             {"save", &rule.save},
                                             {"at", &rule.at},
                                             {"kill_at", &rule.kill_at},
                                             {"after_bytes", &rule.after_bytes}};
  if (const auto text = texts.find(key); text != texts.end()) {
    *text->second = value;
  } else if (const auto number = numbers.find(key); number != numbers.end()) {
    *number->second = std::strtol(value.c_str(), nullptr, 10);
  } else if (key == "errno" && error_named(value) != 0) {
    rule.error = error_named(value);
  } else {
    refuse(word);
  }
}

Plan* read_plan() {
  auto* plan = new Plan;  // calls go on behind the last destructor
  const char* text = std::getenv("LOCKSTEP_TEST_DISK");
  for (const std::string& words : split(text == nullptr ? "" : text, '|')) {
    Rule rule;
    for (const std::string& word : split(words, ';')) {
      if (!word.empty()) take(word, *plan, rule);
    }
    plan->rules.push_back(rule);
  }
  return plan;
}

const Plan& plan() {
  static const Plan& read = *read_plan();
  return read;
}

/// The function that this library hides.
template <class Function>
Function* hidden(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Of the save under way.
struct State {
  std::mutex mutex;
  long save = -1;
  long changes = 0;
  long bytes = 0;
};

State& state() {
  static State& only = *new State;
  return only;
}

bool counts(const std::string& path) {
  const std::string& folder = plan().path;
  return !folder.empty() && path.starts_with(folder) &&
         (path.size() == folder.size() || path[folder.size()] == '/');
}

/// N of a path at or below .step-N.tmp; -1 for another.
long step_of(const std::string& path) {
  constexpr std::string_view kDraft = "/.step-";
  const std::size_t at = path.rfind(kDraft);
  if (at == path.npos) return -1;
  char* end = nullptr;
  const long step = std::strtol(path.c_str() + at + kDraft.size(), &end, 10);
  return std::strncmp(end, ".tmp", 4) == 0 ? step : -1;
}

void log(Kind kind, const std::string& path) {
  static auto* const write = hidden<ssize_t(int, const void*, size_t)>("write");
  static auto* const open = hidden<int(const char*, int, ...)>("open");
  static const int fd = open(plan().log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  const char* rank = std::getenv("RANK");
  const std::string line = std::string(rank == nullptr ? "-" : rank) + ' ' +
                           std::to_string(state().save) + ' ' +
                           kKinds[static_cast<std::size_t>(kind)] + ' ' + path + '\n';
  if (write(fd, line.data(), line.size()) < 0) refuse("log");
}

bool holds(const Rule& rule) {
  const char* rank = std::getenv("RANK");
  const bool is_rank = rank != nullptr && std::strtol(rank, nullptr, 10) == rule.rank;
  return (rule.rank < 0 || is_rank) && (rule.save < 0 || rule.save == state().save);
}

/// What becomes of a call: it fails with an errno, or goes on with so many of its bytes.
struct Verdict {
  int error = 0;
  size_t bytes = 0;
};

Verdict apply(const Rule& rule, Kind kind, bool changes, size_t bytes) {
  const State& now = state();
  if (changes && rule.kill_at == now.changes) ::kill(::getpid(), SIGKILL);
  const bool is_meant =
      rule.fail == kKinds[static_cast<std::size_t>(kind)] || (rule.fail == "any" && changes);
  const bool is_now = rule.at < 0 || (changes && rule.at == now.changes);
  if (rule.error == 0 || !is_meant || !is_now) return {0, bytes};
  const long room = std::max(0L, rule.after_bytes - now.bytes);
  if (kind == Kind::write && room > 0) return {0, std::min(bytes, static_cast<size_t>(room))};
  return {rule.error, 0};
}

Verdict judge(Kind kind, const std::string& path, size_t bytes = 0) {
  if (!counts(path)) return {0, bytes};
  const bool opens = kind == Kind::open || kind == Kind::create;
  if (opens) std::this_thread::sleep_for(std::chrono::milliseconds(plan().open_delay_ms));
  State& now = state();
  const std::lock_guard lock(now.mutex);
  const long step = kind == Kind::create || kind == Kind::mkdir ? step_of(path) : -1;
  if (step >= 0 && step != now.save) {
    now.save = step;
    now.changes = now.bytes = 0;
  }
  const bool changes = kind != Kind::open && kind != Kind::close;
  now.changes += changes ? 1 : 0;
  if (!plan().log.empty()) log(kind, path);
  Verdict verdict{0, bytes};
  for (const Rule& rule : plan().rules) {
    if (verdict.error == 0 && holds(rule)) verdict = apply(rule, kind, changes, verdict.bytes);
  }
  now.bytes += static_cast<long>(verdict.bytes);
  return verdict;
}

std::string path_of(int fd) {
  if (plan().path.empty()) return "";
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length <= 0 ? "" : std::string(path.data(), static_cast<size_t>(length));
}

std::string path_of(int folder, const char* name) {
  if (plan().path.empty() || name == nullptr) return "";
  if (name[0] == '/') return name;
  if (folder != AT_FDCWD) return path_of(folder) + '/' + name;
  std::array<char, 4096> current{};
  return ::getcwd(current.data(), current.size()) == nullptr
             ? ""
             : std::string(current.data()) + '/' + name;
}

/// Calls `real` unless the call is to fail.
template <class Real>
int unless_refused(Kind kind, const std::string& path, const Real& real) {
  const Verdict verdict = judge(kind, path);
  if (verdict.error == 0) return real();
  errno = verdict.error;
  return -1;
}

template <class Real>
ssize_t write_unless_refused(int fd, size_t bytes, const Real& real) {
  const Verdict verdict = judge(Kind::write, path_of(fd), bytes);
  if (verdict.error == 0) return real(verdict.bytes);
  errno = verdict.error;
  return -1;
}

Kind kind_of(int flags) { return (flags & O_CREAT) != 0 ? Kind::create : Kind::open; }

mode_t mode_of(int flags, va_list rest) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
}

}  // namespace

extern "C" {

#define LOCKSTEP_OPEN(name)                                              \
  int name(const char* path, int flags, ...) {                           \
    static auto* const real = hidden<int(const char*, int, ...)>(#name); \
    va_list rest;                                                        \
    va_start(rest, flags);                                               \
    const mode_t mode = mode_of(flags, rest);                            \
    va_end(rest);                                                        \
    return unless_refused(kind_of(flags), path_of(AT_FDCWD, path),       \
                          [&] { return real(path, flags, mode); });      \
  }
#define LOCKSTEP_OPENAT(name)                                                 \
  int name(int folder, const char* path, int flags, ...) {                    \
    static auto* const real = hidden<int(int, const char*, int, ...)>(#name); \
    va_list rest;                                                             \
    va_start(rest, flags);                                                    \
    const mode_t mode = mode_of(flags, rest);                                 \
    va_end(rest);                                                             \
    return unless_refused(kind_of(flags), path_of(folder, path),              \
                          [&] { return real(folder, path, flags, mode); });   \
  }
LOCKSTEP_OPEN(open)
LOCKSTEP_OPEN(open64)
LOCKSTEP_OPENAT(openat)
LOCKSTEP_OPENAT(openat64)

DIR* opendir(const char* path) {
  static auto* const real = hidden<DIR*(const char*)>("opendir");
  const Verdict verdict = judge(Kind::open, path_of(AT_FDCWD, path));
  if (verdict.error == 0) return real(path);
  errno = verdict.error;
  return nullptr;
}

/// The descriptor is gone also where this fails, as on a network file system.
int close(int fd) {
  static auto* const real = hidden<int(int)>("close");
  const Verdict verdict = judge(Kind::close, path_of(fd));
  const int result = real(fd);
  if (verdict.error == 0) return result;
  errno = verdict.error;
  return -1;
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static auto* const real = hidden<ssize_t(int, const void*, size_t)>("write");
  return write_unless_refused(fd, count, [&](size_t n) { return real(fd, bytes, n); });
}

#define LOCKSTEP_PWRITE(name, offset_type)                                                        \
  ssize_t name(int fd, const void* bytes, size_t count, offset_type offset) {                     \
    static auto* const real = hidden<ssize_t(int, const void*, size_t, offset_type)>(#name);      \
    return write_unless_refused(fd, count, [&](size_t n) { return real(fd, bytes, n, offset); }); \
  }
LOCKSTEP_PWRITE(pwrite, off_t)
LOCKSTEP_PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const iovec* parts, int count) {
  static auto* const real = hidden<ssize_t(int, const iovec*, int)>("writev");
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return write_unless_refused(fd, bytes, [&](size_t) { return real(fd, parts, count); });
}

#define LOCKSTEP_FLUSH(name)                                                   \
  int name(int fd) {                                                           \
    static auto* const real = hidden<int(int)>(#name);                         \
    return unless_refused(Kind::fsync, path_of(fd), [&] { return real(fd); }); \
  }
LOCKSTEP_FLUSH(fsync)
LOCKSTEP_FLUSH(fdatasync)

#define LOCKSTEP_TRUNCATE(name, offset_type)                                              \
  int name(int fd, offset_type length) noexcept {                                         \
    static auto* const real = hidden<int(int, offset_type)>(#name);                       \
    return unless_refused(Kind::truncate, path_of(fd), [&] { return real(fd, length); }); \
  }
LOCKSTEP_TRUNCATE(ftruncate, off_t)
LOCKSTEP_TRUNCATE(ftruncate64, off64_t)

#define LOCKSTEP_ALLOCATE(name, offset_type)                                          \
  int name(int fd, int mode, offset_type offset, offset_type length) {                \
    static auto* const real = hidden<int(int, int, offset_type, offset_type)>(#name); \
    return unless_refused(Kind::truncate, path_of(fd),                                \
                          [&] { return real(fd, mode, offset, length); });            \
  }
LOCKSTEP_ALLOCATE(fallocate, off_t)
LOCKSTEP_ALLOCATE(fallocate64, off64_t)

int rename(const char* from, const char* to) noexcept {
  static auto* const real = hidden<int(const char*, const char*)>("rename");
  return unless_refused(Kind::rename, path_of(AT_FDCWD, from), [&] { return real(from, to); });
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static auto* const real = hidden<int(int, const char*, int, const char*)>("renameat");
  return unless_refused(Kind::rename, path_of(from_folder, from),
                        [&] { return real(from_folder, from, to_folder, to); });
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  static auto* const real = hidden<int(int, const char*, int, const char*, unsigned)>("renameat2");
  return unless_refused(Kind::rename, path_of(from_folder, from),
                        [&] { return real(from_folder, from, to_folder, to, flags); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = hidden<int(const char*, mode_t)>("mkdir");
  return unless_refused(Kind::mkdir, path_of(AT_FDCWD, path), [&] { return real(path, mode); });
}

#define LOCKSTEP_REMOVE(name)                                                                 \
  int name(const char* path) noexcept {                                                       \
    static auto* const real = hidden<int(const char*)>(#name);                                \
    return unless_refused(Kind::unlink, path_of(AT_FDCWD, path), [&] { return real(path); }); \
  }
LOCKSTEP_REMOVE(unlink)
LOCKSTEP_REMOVE(rmdir)
LOCKSTEP_REMOVE(remove)

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const real = hidden<int(int, const char*, int)>("unlinkat");
  return unless_refused(Kind::unlink, path_of(folder, path),
                        [&] { return real(folder, path, flags); });
}

}  // extern "C"
