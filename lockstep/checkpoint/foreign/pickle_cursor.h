// The place in a pickle that is being read, and the two ways to refuse it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::checkpoint {

/// Every read is checked against the end.
class PickleCursor {
 public:
  /// \param where must outlive this.
  PickleCursor(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  /// The next opcode; faults are reported at its place.
  unsigned char opcode();
  std::string_view take(std::uint64_t count);
  /// Up to the next line feed, which is taken too.
  std::string_view line();
  /// Little-endian, `Width` bytes.
  template <int Width>
  std::uint64_t number() {
    const std::string_view raw = take(Width);
    std::uint64_t value = 0;
    for (std::size_t i = Width; i-- > 0;) value = value << 8U | static_cast<unsigned char>(raw[i]);
    return value;
  }
  [[nodiscard]] std::size_t left() const { return bytes_.size() - at_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }

  /// \throws BadData (LS-5012), always: these bytes are no pickle that PyTorch wrote.
  [[noreturn]] void fail(const std::string& what) const;
  /// \throws BadData (LS-5013), always: the pickle wants something run.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string_view bytes_;
  const std::string& where_;
  std::size_t at_ = 0;
  std::size_t opcode_at_ = 0;
};

}  // namespace lockstep::checkpoint
