// Group over NCCL: which GPU each rank takes.
#include <cuda_runtime_api.h>

#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/comm/gpu_faults.h"
#include "lockstep/comm/host_layout.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/nccl_calls.h"
#include "lockstep/comm/rank_places.h"

namespace lockstep::comm {
namespace {

/// \param why filled where there is none.
int visible_gpus(std::string& why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return count;
  why = status == cudaSuccess ? "CUDA sees none" : cudaGetErrorString(status);
  return 0;
}

/// "GPU-1b2c..." as `nvidia-smi -L` has it, without the dashes; empty when there is no such GPU.
std::string gpu_id(int index) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) return "";
  std::string id = "GPU-";
  for (const char byte : properties.uuid.bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    id += digits.data();
  }
  return id;
}

/// Collective.
at::Device choose_gpu(c10d::Store& store, const GroupOptions& options,
                      const std::vector<RankPlace>& places) {
  std::vector<std::string> names;
  for (const RankPlace& place : places) names.push_back(place.host_name);
  const HostLayout layout = layout_of(places, options.rank);
  GpuCard own;
  own.visible = visible_gpus(own.why);
  const int index = gpu_of(layout.local(), own.visible);
  own.id = gpu_id(index);
  std::vector<GpuCard> cards;
  for (const auto& text :
       exchange_texts(store, options, "gpu", to_text(own), "which GPU it takes")) {
    cards.push_back(read_gpu_card(text));
  }
  check_gpus(cards, layout, names);
  return {at::kCUDA, static_cast<at::DeviceIndex>(index)};
}

}  // namespace

/// This build has it. (without_nccl.cpp is compiled in the others and refuses.)
void require_nccl(const GroupOptions& /*options*/) {}

std::unique_ptr<Group> make_nccl_group(const GroupOptions& given, Meeting meeting) {
  GroupOptions options = given;
  const std::vector<RankPlace> places = exchange_places(*meeting.store, options);
  check_addresses(places);
  options.address = places.at(static_cast<std::size_t>(options.rank)).address;
  auto library = std::make_shared<NcclLibrary>(meeting.store, options,
                                               choose_gpu(*meeting.store, options, places));
  return make_stream_group(options, std::move(meeting), std::move(library));
}

}  // namespace lockstep::comm
