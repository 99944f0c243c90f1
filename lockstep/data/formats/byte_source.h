// Bytes read once, from front to end: of a file, plain or gzip, or of memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::data {

class ByteSource {
 public:
  explicit ByteSource(std::string name) : name_(std::move(name)) {}
  virtual ~ByteSource() = default;

  /// Fills as much of `into` as there is and returns how much; less than its size only at the end.
  /// \throws BadData (LS-2005) when gzip data break off or fail their checksum.
  [[nodiscard]] std::size_t read(std::span<std::byte> into);

  /// An upper bound of the bytes still to come: what a declared size is checked against before
  /// anything is allocated. Exact unless compressed().
  [[nodiscard]] virtual std::uint64_t at_most_bytes() const = 0;
  [[nodiscard]] virtual bool compressed() const { return false; }

  [[nodiscard]] std::uint64_t offset_bytes() const { return offset_bytes_; }  // inflated, if gzip
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  virtual std::size_t read_some(std::span<std::byte> into) = 0;

  std::string name_;
  std::uint64_t offset_bytes_ = 0;
};

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::span<const std::byte> bytes, std::string name = "memory")
      : ByteSource(std::move(name)), left_(bytes) {}
  [[nodiscard]] std::uint64_t at_most_bytes() const override { return left_.size(); }

 private:
  std::size_t read_some(std::span<std::byte> into) override;

  std::span<const std::byte> left_;
};

/// Opens a regular file; gzip is recognised by its first two bytes.
/// \throws EnvironmentFault (LS-2001), naming the Debian package that holds a known path.
[[nodiscard]] std::unique_ptr<ByteSource> open_file(const std::string& path);

/// The next `limit_bytes` bytes, or fewer if the source ends. Memory grows with what is read, never
/// with what a compressed file announces.
[[nodiscard]] std::vector<std::uint8_t> read_up_to(ByteSource& source, std::uint64_t limit_bytes);
/// Everything a source still holds.
[[nodiscard]] std::vector<std::uint8_t> read_all(ByteSource& source);

/// Writes `bytes` to `path` whole or not at all; as gzip when the name ends in ".gz".
void write_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace lockstep::data
