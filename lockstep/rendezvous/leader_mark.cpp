#include "lockstep/rendezvous/leader_mark.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "lockstep/base/sha256.h"

namespace lockstep::rendezvous {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kAhead{500};
constexpr std::chrono::seconds kRemembered{60};  // longer than any rank lives without an answer
constexpr std::size_t kNameDigits = 24;

std::string beginning_of_names() { return "lockstep-led-" + std::to_string(::geteuid()) + "-"; }

std::filesystem::path path_of(const std::filesystem::path& folder, const JobKey& key,
                              const Endpoint& endpoint) {
  const std::string_view job(reinterpret_cast<const char*>(key.job.data()), key.job.size());
  const std::string digits = sha256_hex(std::string(job) + endpoint.text());
  return folder / (beginning_of_names() + digits.substr(0, kNameDigits));
}

/// Everybody may write to /dev/shm: what another user put there says nothing.
bool is_own_file(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

Fd open_own(const std::filesystem::path& path, int flags) {
  Fd file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (file && !is_own_file(file.get())) file.reset();
  return file;
}

/// The beginning of time where nothing was written.
Deadline read_from(const Fd& file) {
  std::int64_t until_ns = 0;
  if (!file || ::pread(file.get(), &until_ns, sizeof until_ns, 0) != sizeof until_ns) return {};
  return Deadline(std::chrono::nanoseconds(until_ns));
}

/// Marks of leaders that were killed and never replaced would stay until the machine starts anew.
void remove_old(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(beginning_of_names())) continue;
    const Deadline until = read_from(open_own(entry->path(), O_RDONLY));
    const bool is_old = until != Deadline{} && until < Clock::now() - kRemembered;
    if (is_old) ::unlink(entry->path().c_str());
  }
}

}  // namespace

LeaderMark::LeaderMark(const std::filesystem::path& folder, const JobKey& key,
                       const Endpoint& endpoint)
    : path_(path_of(folder, key, endpoint)) {
  remove_old(folder);
  file_ = open_own(path_, O_RDWR | O_CREAT);
  // The clock of all processes of a host; of an earlier start of it when it is ahead.
  before_ = std::min(read_from(file_), Clock::now() + kAhead);
}

void LeaderMark::renew() {
  const auto now = Clock::now();
  if (!file_ || now + kAhead / 2 < until_) return;
  // While this process was stopped another may have taken its mark for an old one.
  const bool stood_still = until_ != Deadline{} && now >= until_ + kRemembered / 2;
  if (stood_still) file_ = open_own(path_, O_RDWR | O_CREAT);
  if (file_) write(now + kAhead);
}

void LeaderMark::clear() {
  if (!file_) return;
  if (Clock::now() < before_ + kRemembered) {
    write(before_);  // this job has ended, the one before was never heard of
  } else {
    ::unlink(path_.c_str());
  }
  file_.reset();
}

void LeaderMark::write(Deadline until) {
  until_ = until;
  const std::int64_t until_ns =
      std::chrono::duration_cast<std::chrono::nanoseconds>(until.time_since_epoch()).count();
  if (::pwrite(file_.get(), &until_ns, sizeof until_ns, 0) != sizeof until_ns) file_.reset();
}

}  // namespace lockstep::rendezvous
