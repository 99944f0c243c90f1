#include "lockstep/checkpoint/foreign/pickle_cursor.h"

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

void PickleCursor::fail(const std::string& what) const {
  throw BadData(
      {"LS-5012", where_, "byte " + std::to_string(opcode_at_) + " of the pickle: " + what,
       "the file is damaged, or nothing that PyTorch wrote: copy it again from where it was made"});
}

void PickleCursor::refuse(const std::string& what) const {
  throw BadData(
      {"LS-5013", where_,
       "byte " + std::to_string(opcode_at_) + " of the pickle " + what + "; nothing was executed",
       "where the file was made, save only tensors, numbers and texts (model.state_dict()), or "
       "write them with safetensors.torch.save_file; from a stranger, take it for an attack"});
}

unsigned char PickleCursor::opcode() {
  opcode_at_ = at_;
  return static_cast<unsigned char>(take(1)[0]);
}

std::string_view PickleCursor::take(std::uint64_t count) {
  if (count > left()) {
    fail("cut, " + std::to_string(count) + " more bytes expected and " + std::to_string(left()) +
         " there");
  }
  at_ += count;
  return bytes_.substr(at_ - count, count);
}

std::string_view PickleCursor::line() {
  const std::size_t end = bytes_.find('\n', at_);
  if (end == std::string_view::npos) fail("cut within a line of text");
  const std::string_view text = take(end - at_);
  ++at_;
  return text;
}

}  // namespace lockstep::checkpoint
