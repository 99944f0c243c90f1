#include "lockstep/rendezvous/job_secret.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::rendezvous {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kDescriptor = "fd:";
constexpr std::size_t kHexBytes = 64;
constexpr mode_t kOthers = 0077;
constexpr mode_t kReadByGroup = 0040;
constexpr uid_t kRoot = 0;

/// How to complain about the secret: whoever named it made the mistake, else the machine has it.
struct Where {
  std::string text;
  bool named;

  [[noreturn]] void fail(const std::string& what, const std::string& fix) const {
    const Problem problem{"LS-3061", text, what, fix};
    if (named) throw UsageError({problem});
    throw EnvironmentFault(problem);
  }
  [[noreturn]] void fail_with_errno(const std::string& what) const {
    const int code = errno;
    fail(what + ": " + std::generic_category().message(code),
         "name a file that holds the job's secret, the same on all hosts");
  }
};

std::string hex_line(const Secret& secret) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const auto byte : secret) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text + "\n";
}

bool from_hex(std::string_view digits, Secret& secret) {
  for (std::size_t i = 0; i < secret.size(); ++i) {
    const char* begin = digits.data() + 2 * i;
    const auto [end, error] = std::from_chars(begin, begin + 2, secret[i], 16);
    if (error != std::errc() || end != begin + 2) return false;
  }
  return true;
}

/// All bytes up to the end, or one more than a secret can have.
std::string read_up(int fd, const Where& where) {
  std::string bytes(kHexBytes + 3, '\0');
  std::size_t count = 0;
  while (count < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + count, bytes.size() - count);
    if (n == 0) break;
    if (n < 0 && errno != EINTR) where.fail_with_errno("the job's secret cannot be read");
    if (n > 0) count += static_cast<std::size_t>(n);
  }
  bytes.resize(count);
  return bytes;
}

Secret secret_in(std::string bytes, const Where& where) {
  Secret secret{};
  if (bytes.size() == secret.size()) {
    std::copy(bytes.begin(), bytes.end(), secret.begin());
    return secret;
  }
  if (bytes.ends_with('\n')) bytes.pop_back();
  if (bytes.ends_with('\r')) bytes.pop_back();
  if (bytes.size() != kHexBytes || !from_hex(bytes, secret)) {
    where.fail("this is no job secret: 32 bytes, or 64 hex digits in one line",
               "make one with: openssl rand -hex 32, and give all hosts the same");
  }
  return secret;
}

Secret from_descriptor(const std::string& named) {
  const Where where{named, true};
  const char* begin = named.data() + kDescriptor.size();
  const char* end = named.data() + named.size();
  int number = -1;
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || rest != end || number < 0) {
    where.fail("this is no descriptor", "write fd: and its number, as in fd:3");
  }
  const std::string bytes = read_up(number, where);
  if (number > STDERR_FILENO) ::close(number);
  return secret_in(bytes, where);
}

Secret from_file(const std::string& path, bool named) {
  const Where where{path, named};
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    where.fail_with_errno("the job's secret cannot be read");
  }
  if (!S_ISREG(info.st_mode)) {
    where.fail("this is not a file", "name a file that holds the job's secret, or fd:N");
  }
  if (const auto trouble = why_not_private(path, info.st_uid, info.st_mode, ::geteuid())) {
    where.fail(trouble->what, trouble->fix);
  }
  return secret_in(read_up(fd.get(), where), where);
}

/// Written beside its place and linked there, so that agents that start together take one secret.
void make_file(const fs::path& path) {
  const Where where{path.string(), false};
  std::error_code error;
  const bool made_folder = fs::create_directories(path.parent_path(), error);
  if (made_folder) fs::permissions(path.parent_path(), fs::perms::owner_all, error);
  std::string scratch = path.string() + ".XXXXXX";
  const Fd fd(::mkostemp(scratch.data(), O_CLOEXEC));  // with mode 0600
  if (!fd) where.fail_with_errno("no job secret can be made here");
  const std::string line = hex_line(random_secret());
  const bool written =
      ::write(fd.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      ::fsync(fd.get()) == 0;
  const bool linked = written && (::link(scratch.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int code = errno;
  ::unlink(scratch.c_str());
  errno = code;
  if (!linked) where.fail_with_errno("no job secret can be made here");
}

}  // namespace

Secret random_secret() {
  Secret secret{};
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    Where{"this machine", false}.fail_with_errno("the kernel gives no random bytes");
  }
  return secret;
}

std::optional<NotPrivate> why_not_private(const std::string& path, uid_t owner, mode_t mode,
                                          uid_t self) {
  if (owner != self && owner != kRoot) {
    return NotPrivate{"the file belongs to user " + std::to_string(owner) + ", not to this one",
                      "make a copy of your own: install -m 600 FILE COPY"};
  }
  const mode_t forbidden = owner == kRoot ? kOthers & ~kReadByGroup : kOthers;
  if ((mode & forbidden) == 0) return std::nullopt;
  NotPrivate trouble{"others may read or write the file", "chmod 600 " + path};
  if (owner == kRoot) {
    trouble.fix +=
        "; of a Secret that Kubernetes mounts: defaultMode: 0400 in its volume, and "
        "securityContext: {fsGroup: 1000} in the pod where its user is not root";
  }
  return trouble;
}

Secret load_secret(const SecretSource& source) {
  if (source.named.starts_with(kDescriptor)) return from_descriptor(source.named);
  if (!source.named.empty()) return from_file(source.named, true);
  std::error_code ignored;  // what else is wrong with the file is told when it is opened
  if (!fs::exists(source.default_file, ignored)) make_file(source.default_file);
  return from_file(source.default_file.string(), false);
}

JobKey job_key(const Secret& secret, const std::string& run_id) {
  constexpr std::string_view kPublic = "lockstep: which job this is";
  const Code job =
      hmac_sha256({reinterpret_cast<const std::uint8_t*>(kPublic.data()), kPublic.size()}, run_id);
  JobKey key{hmac_sha256(secret, run_id), {}};
  std::copy_n(job.begin(), key.job.size(), key.job.begin());
  return key;
}

}  // namespace lockstep::rendezvous
