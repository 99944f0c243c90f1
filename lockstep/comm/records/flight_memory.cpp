#include "lockstep/comm/records/flight_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_keep(const fs::path& file, int code) {
  throw EnvironmentFault({"LS-4023", file.string(),
                          "the flight recorder cannot keep its records there: " +
                              std::generic_category().message(code),
                          "free disk space or choose another --run-dir"});
}

/// A file that is removed unless it was given its name.
class NewFile {
 public:
  explicit NewFile(const fs::path& target)
      : target_(target), temporary_(target.string() + ".new-" + std::to_string(::getpid())) {
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    fs::remove(temporary_, error);  // of a process that had this pid and was killed
    fd_.reset(::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd_) cannot_keep(target, errno);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile() {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  [[nodiscard]] int fd() const { return fd_.get(); }

  void write(const std::byte* bytes, std::size_t count) {
    // Taken now: a full disk found later would be a SIGBUS in whoever writes a record.
    int full = EINTR;
    while (full == EINTR) full = ::posix_fallocate(fd(), 0, static_cast<off_t>(count));
    if (full != 0) cannot_keep(target_, full);
    for (std::size_t done = 0; done < count;) {
      const ssize_t n = ::pwrite(fd(), bytes + done, count - done, static_cast<off_t>(done));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) cannot_keep(target_, n < 0 ? errno : EIO);
      done += static_cast<std::size_t>(n);
    }
  }

  void commit() {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) cannot_keep(target_, errno);
    temporary_.clear();
  }

 private:
  fs::path target_;
  fs::path temporary_;
  Fd fd_;
};

}  // namespace

FlightMemory::FlightMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
  void* memory =
      ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(memory);
}

FlightMemory::~FlightMemory() { ::munmap(data_, size_bytes_); }

void FlightMemory::move_to(const fs::path& target) {
  NewFile file(target);
  file.write(data_, size_bytes_);
  const void* moved =
      ::mmap(data_, size_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.fd(), 0);
  if (moved == MAP_FAILED) cannot_keep(target, errno);
  file.commit();
}

}  // namespace lockstep::comm
