#include "lockstep/comm/shm/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <random>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"

namespace lockstep::comm::shm {
namespace {

constexpr const char* kFolder = "/dev/shm";
constexpr std::size_t kShownBytes = 80;  // of a text that is no locator
constexpr int kAttempts = 16;            // a name taken twice in a row is not chance

std::string reason(int error) { return std::generic_category().message(error); }

/// What locator() returns, and no other path: whoever can write to the store chooses no file.
bool is_locator(const std::string& text) {
  int pid = 0;
  int fd = 0;
  int end = 0;
  return std::sscanf(text.c_str(), "/proc/%d/fd/%d%n", &pid, &fd, &end) == 2 &&
         static_cast<std::size_t>(end) == text.size();
}

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

/// \returns an errno value; 0 = there.
int allocate(const Fd& fd, std::size_t offset, std::size_t bytes) {
  int error = EINTR;  // of a profiler's signals, say
  while (error == EINTR) {
    error = ::posix_fallocate(fd.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  }
  return error;
}

int set_size(const Fd& fd, std::size_t bytes) {
  return ::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
}

}  // namespace

SharedMemory::SharedMemory(Fd fd, std::size_t bytes, const std::string& where, Pages pages)
    : fd_(std::move(fd)), bytes_(bytes) {
  const int populate = pages == Pages::now ? MAP_POPULATE : 0;
  void* const at =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | populate, fd_.get(), 0);
  if (at == MAP_FAILED) {
    throw EnvironmentFault({"LS-4011", where, "cannot map shared memory: " + reason(errno),
                            "see the limits of address space and locked memory (ulimit -v)"});
  }
  data_ = static_cast<std::byte*>(at);
}

SharedMemory SharedMemory::create(std::size_t bytes, Pages pages) {
  Fd fd = create_unlinked(bytes);
  const int error = pages == Pages::now ? allocate(fd, 0, bytes) : set_size(fd, bytes);
  if (error != 0) {
    fail_create(bytes, "no room for shared memory (" + reason(error) + ")");
  }
  return {std::move(fd), bytes, kFolder, pages};
}

void SharedMemory::fail_full(std::size_t bytes) { fail_create(bytes, "no room for shared memory"); }

bool SharedMemory::reserve(std::size_t offset, std::size_t bytes) const {
  if (allocate(fd_, offset, bytes) != 0) return false;
  // Saves the faults of the first touch; a kernel before 5.14 does not know it.
  (void)::madvise(data_ + offset, bytes, MADV_POPULATE_WRITE);
  return true;
}

SharedMemory SharedMemory::open(const std::string& locator, Pages pages) {
  if (!is_locator(locator)) {
    throw EnvironmentFault({"LS-4011", "the store",
                            "\"" + locator.substr(0, kShownBytes) +
                                "\" does not say where the shared memory of a group is",
                            "give every job a store of its own: another program wrote there"});
  }
  Fd fd(::open(locator.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK));
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
  // The number of a process that ended may have gone to one that has other files.
  if (!S_ISREG(info.st_mode) || info.st_nlink != 0 || info.st_size == 0) {
    throw PeerLost({"LS-4011", locator, "this is no shared memory of a group any more",
                    "the rank that made it has ended: its own message is the cause"});
  }
  SharedMemory memory(std::move(fd), static_cast<std::size_t>(info.st_size), locator, pages);
  if (pages == Pages::now) memory.close_door();  // whoever comes after finds the creator
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
