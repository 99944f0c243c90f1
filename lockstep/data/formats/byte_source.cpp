#include "lockstep/data/formats/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <string_view>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/error.h"
#include "lockstep/data/formats/debian_package.h"

namespace lockstep::data {
namespace {

constexpr std::uint64_t kMaxDeflateRatio = 1032;  // zlib manual, "Maximum Compression Factor"
constexpr unsigned kInflateBufferBytes = 256 * 1024;
constexpr std::size_t kReadChunkBytes = std::size_t{1} << 30;  // gzread counts in int
constexpr int kGzipWindowBits = 15 + 16;                       // largest window, gzip wrapping

[[noreturn]] void fail_to_open(const std::string& path, const std::string& why) {
  throw EnvironmentFault({"LS-2001", path, why, install_hint(path)});
}

class FileSource : public ByteSource {
 public:
  FileSource(gzFile file, const std::string& path, std::uint64_t file_bytes)
      : ByteSource(path), file_(file), file_bytes_(file_bytes), compressed_(gzdirect(file) == 0) {}
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  ~FileSource() override { gzclose_r(file_); }

  [[nodiscard]] std::uint64_t at_most_bytes() const override {
    const std::uint64_t limit = compressed_ ? file_bytes_ * kMaxDeflateRatio : file_bytes_;
    return limit - std::min(limit, offset_bytes());
  }
  [[nodiscard]] bool compressed() const override { return compressed_; }

 private:
  std::size_t read_some(std::span<std::byte> into) override {
    const auto want = static_cast<unsigned>(std::min(into.size(), kReadChunkBytes));
    const int got = gzread(file_, into.data(), want);
    int status = Z_OK;
    const char* why = gzerror(file_, &status);
    if (got < 0 || status == Z_BUF_ERROR) fail(status, status == Z_BUF_ERROR ? "" : why);
    return static_cast<std::size_t>(got);
  }

  [[noreturn]] void fail(int status, const std::string& why) const {
    if (status == Z_ERRNO) fail_to_open(name(), std::string("cannot be read: ") + strerror(errno));
    // A damaged byte can make the data look longer than they are, so this need not be a short copy.
    std::string what = "the gzip data break off: they have no end within the " +
                       std::to_string(file_bytes_) +
                       " bytes of the file, which is short or damaged";
    if (status != Z_BUF_ERROR) {
      const std::size_t colon = why.find(": ");  // zlib puts a name for the descriptor in front
      what = "the gzip data are damaged (" +
             why.substr(colon == std::string::npos ? 0 : colon + 2) + ")";
    }
    const auto inflated =
        std::max(offset_bytes(), static_cast<std::uint64_t>(std::max<z_off_t>(gztell(file_), 0)));
    if (inflated > 0) what += ", after " + std::to_string(inflated) + " inflated bytes";
    throw BadData({"LS-2005", name(), what, "copy or download the file again"});
  }

  gzFile file_;
  std::uint64_t file_bytes_;
  bool compressed_;
};

std::vector<std::byte> gzip(std::span<const std::byte> bytes) {
  z_stream stream{};
  LOCKSTEP_CHECK(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzipWindowBits, 8,
                              Z_DEFAULT_STRATEGY) == Z_OK,
                 "deflateInit2 failed");
  std::vector<std::byte> packed(deflateBound(&stream, bytes.size()));
  // zlib's input pointer is not const in its C interface; deflate only reads it.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  LOCKSTEP_CHECK(status == Z_STREAM_END, "deflate did not finish");
  return packed;
}

}  // namespace

std::size_t ByteSource::read(std::span<std::byte> into) {
  std::size_t total = 0;
  while (total < into.size()) {
    const std::size_t got = read_some(into.subspan(total));
    if (got == 0) break;
    total += got;
    offset_bytes_ += got;
  }
  return total;
}

std::size_t MemorySource::read_some(std::span<std::byte> into) {
  const std::size_t count = std::min(into.size(), left_.size());
  std::copy_n(left_.begin(), count, into.begin());
  left_ = left_.subspan(count);
  return count;
}

std::unique_ptr<ByteSource> open_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) fail_to_open(path, strerror(errno));
  if (!S_ISREG(status.st_mode)) fail_to_open(path, "not a regular file");  // a FIFO would block
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_to_open(path, strerror(errno));
  gzFile file = gzdopen(fd, "rb");
  if (file == nullptr) {
    ::close(fd);
    fail_to_open(path, "not enough memory to open it");
  }
  gzbuffer(file, kInflateBufferBytes);
  return std::make_unique<FileSource>(file, path, static_cast<std::uint64_t>(status.st_size));
}

std::vector<std::uint8_t> read_up_to(ByteSource& source, std::uint64_t limit_bytes) {
  constexpr std::uint64_t kStepBytes = std::uint64_t{1} << 20;
  constexpr std::uint64_t kReserveBytes = std::uint64_t{1} << 26;  // untouched pages cost nothing
  std::vector<std::uint8_t> bytes;
  bytes.reserve(std::min({limit_bytes, source.at_most_bytes(), kReserveBytes}));
  while (bytes.size() < limit_bytes) {
    const std::uint64_t size = bytes.size();
    // One byte beyond an exact length finds the end without growing again.
    const std::uint64_t step =
        std::min(limit_bytes - size,
                 source.compressed() ? std::max(kStepBytes, size) : source.at_most_bytes() + 1);
    bytes.resize(size + step);
    const std::size_t got = source.read(std::as_writable_bytes(std::span(bytes).subspan(size)));
    bytes.resize(size + got);
    if (got < step) break;
  }
  return bytes;
}

std::vector<std::uint8_t> read_all(ByteSource& source) {
  std::vector<std::uint8_t> bytes = read_up_to(source, std::numeric_limits<std::int64_t>::max());
  bytes.shrink_to_fit();
  return bytes;
}

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  if (std::string_view(path).ends_with(".gz")) {
    file.write(gzip(bytes));
  } else {
    file.write(bytes);
  }
  file.commit();
}

}  // namespace lockstep::data
