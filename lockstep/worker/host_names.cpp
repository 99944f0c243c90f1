#include "lockstep/worker/host_names.h"

#include <ATen/Functions.h>

#include <algorithm>

#include "lockstep/comm/records/process_state.h"
#include "lockstep/comm/records/purpose.h"

namespace lockstep::worker {
namespace {

constexpr std::int64_t kNameBytes = 64;  // a name and at least one zero

}  // namespace

std::vector<std::string> gather_host_names(comm::Group& world, const std::string& own) {
  const std::string name = own.empty() ? comm::own_identity().host : own;
  const at::Tensor mine = at::zeros({kNameBytes}, at::kByte);
  const auto count = std::min(name.size(), static_cast<std::size_t>(kNameBytes - 1));
  std::copy_n(name.begin(), count, mine.mutable_data_ptr<std::uint8_t>());
  const at::Tensor all = at::zeros({world.size(), kNameBytes}, at::kByte);
  const comm::Purpose purpose("the names of the hosts");
  world.all_gather(all, mine)->wait();
  std::vector<std::string> names;
  const std::uint8_t* row = all.const_data_ptr<std::uint8_t>();
  for (int rank = 0; rank < world.size(); ++rank, row += kNameBytes) {
    names.emplace_back(row, std::find(row, row + kNameBytes, 0));
  }
  return names;
}

}  // namespace lockstep::worker
