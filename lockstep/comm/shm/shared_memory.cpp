#include "lockstep/comm/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <random>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::comm::shm {
namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr int kAttempts = 16;  // a name taken twice in a row is not chance

std::string reason(int error) { return std::generic_category().message(error); }

std::int64_t free_bytes() {
  struct statvfs info {};
  if (::statvfs(kFolder, &info) != 0) return 0;
  return static_cast<std::int64_t>(info.f_bavail) * static_cast<std::int64_t>(info.f_frsize);
}

[[noreturn]] void fail_create(std::size_t bytes, const std::string& what) {
  throw EnvironmentFault(
      {"LS-4010", kFolder,
       what + ": " + format_bytes(static_cast<std::int64_t>(bytes)) + " needed, " +
           format_bytes(free_bytes()) + " free",
       "make it larger (docker run --shm-size=2g; mount -o remount,size=4g /dev/shm), end what "
       "fills it, or set LOCKSTEP_BACKEND=gloo"});
}

Fd create_unlinked(std::size_t bytes) {
  std::random_device random;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::string name = "/lockstep-" + std::to_string(::getpid()) + "-" +
                             std::to_string(random()) + std::to_string(random());
    Fd fd(::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
    if (fd) {
      ::shm_unlink(name.c_str());
      return fd;
    }
    if (errno != EEXIST) fail_create(bytes, "cannot create shared memory (" + reason(errno) + ")");
  }
  fail_create(bytes, "cannot find a free name");
}

}  // namespace

SharedMemory::SharedMemory(Fd fd, std::size_t bytes, const std::string& where)
    : fd_(std::move(fd)), bytes_(bytes) {
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), 0);
  if (at == MAP_FAILED) {
    throw EnvironmentFault({"LS-4011", where, "cannot map shared memory: " + reason(errno),
                            "see the limits of address space and locked memory (ulimit -v)"});
  }
  data_ = static_cast<std::byte*>(at);
}

SharedMemory SharedMemory::create(std::size_t bytes) {
  Fd fd = create_unlinked(bytes);
  int error = EINTR;  // of a profiler's signals, say
  while (error == EINTR) error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    fail_create(bytes, "no room for shared memory (" + reason(error) + ")");
  }
  return {std::move(fd), bytes, kFolder};
}

SharedMemory SharedMemory::open(const std::string& locator) {
  Fd fd(::open(locator.c_str(), O_RDWR | O_CLOEXEC));
  struct stat info {};
  if (!fd && errno == ENOENT) {  // its /proc folder goes with the process
    throw PeerLost({"LS-4011", locator, "the rank that made the shared memory has ended",
                    "its own message is the cause; with none, ranks of this host may not see each "
                    "other's processes (use one container, --pid=host, or Gloo)"});
  }
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    throw EnvironmentFault({"LS-4011", locator,
                            "cannot open the shared memory of another rank: " + reason(errno),
                            "ranks of one host must run as one user and see each other's processes "
                            "(one container, or --pid=host); else use Gloo"});
  }
  SharedMemory memory(std::move(fd), static_cast<std::size_t>(info.st_size), locator);
  memory.close_door();  // whoever comes after finds the creator
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) ::munmap(data_, bytes_);
    fd_ = std::move(other.fd_);
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

std::string SharedMemory::locator() const {
  return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

}  // namespace lockstep::comm::shm
