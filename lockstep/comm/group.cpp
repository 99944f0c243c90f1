#include "lockstep/comm/group.h"

#include <ATen/Functions.h>

#include <cstring>

namespace lockstep::comm {

std::string broadcast_text(Group& group, const std::string& text, int root) {
  auto bytes = at::full({1}, static_cast<std::int64_t>(text.size()), at::kLong);
  group.broadcast(bytes, root)->wait();
  std::string out(static_cast<std::size_t>(bytes.item<std::int64_t>()), '\0');
  if (out.empty()) return out;
  if (group.rank() == root) out = text;
  auto body = at::empty({static_cast<std::int64_t>(out.size())}, at::kByte);
  std::memcpy(body.mutable_data_ptr(), out.data(), out.size());
  group.broadcast(body, root)->wait();
  std::memcpy(out.data(), body.const_data_ptr(), out.size());
  return out;
}

}  // namespace lockstep::comm
