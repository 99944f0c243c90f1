#include "lockstep/checkpoint/gather_texts.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <cstring>
#include <map>

#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/comm/records/purpose.h"

namespace lockstep::checkpoint {
namespace {

std::int64_t as_signed(std::uint64_t bits) {
  std::int64_t number = 0;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

/// The checksum of each rank's text.
std::vector<std::int64_t> gather_sums(comm::Group& group, const std::string& text) {
  const at::Tensor own = at::full({1}, as_signed(checksum(text)), at::kLong);
  const at::Tensor all = at::empty({group.size(), 1}, at::kLong);
  group.all_gather(all, own)->wait();
  const auto* first = all.const_data_ptr<std::int64_t>();
  return {first, first + group.size()};
}

}  // namespace

std::vector<std::string> gather_texts(comm::Group& group, const std::string& text) {
  if (group.size() == 1) return {text};
  const comm::Purpose purpose("what each rank saves");
  std::map<std::int64_t, std::string> known;
  std::vector<std::string> texts;
  const std::vector<std::int64_t> sums = gather_sums(group, text);
  for (std::size_t rank = 0; rank < sums.size(); ++rank) {
    const std::int64_t sum = sums[rank];
    if (!known.contains(sum)) {
      known[sum] = comm::broadcast_text(group, text, static_cast<int>(rank));
    }
    texts.push_back(known[sum]);
  }
  return texts;
}

}  // namespace lockstep::checkpoint
