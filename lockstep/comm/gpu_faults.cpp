#include "lockstep/comm/gpu_faults.h"

#include <algorithm>
#include <sstream>

namespace lockstep::comm {
namespace {

constexpr std::size_t kCauseLength = 200;

std::string line_after(const std::string& text, const std::string& mark) {
  const auto at = text.find(mark);
  if (at == std::string::npos) return "";
  const auto begin = text.find_first_not_of(" \n", at + mark.size());
  return begin == std::string::npos ? "" : text.substr(begin, text.find('\n', begin) - begin);
}

}  // namespace

std::string to_text(const GpuCard& card) {
  return std::to_string(card.visible) + "\n" + card.id + "\n" + card.why + "\n";
}

GpuCard read_gpu_card(const std::string& text) {
  GpuCard card;
  std::istringstream lines(text);
  std::string visible;
  std::getline(lines, visible);
  std::istringstream(visible) >> card.visible;
  std::getline(lines, card.id);
  std::getline(lines, card.why);
  return card;
}

int gpu_of(int local, int visible) { return visible == 1 ? 0 : local; }

void check_gpus(const std::vector<GpuCard>& cards, const HostLayout& layout,
                const std::vector<std::string>& host_names) {
  const auto name = [&](std::size_t rank) {
    return "rank " + std::to_string(rank) + " on host " + host_names.at(rank);
  };
  for (std::size_t r = 0; r < cards.size(); ++r) {
    const int rank = static_cast<int>(r);
    const int visible = cards[r].visible;
    if (gpu_of(layout.local_of(rank), visible) < visible) continue;
    if (visible == 0) throw no_gpu(name(r), cards[r].why);
    const auto ranks = layout.ranks_of(layout.host_of(rank)).size();
    throw EnvironmentFault(
        {"LS-4017", name(r),
         std::to_string(ranks) + " ranks run on this host, and it shows them " +
             std::to_string(visible) + " GPUs: NCCL needs one a rank",
         "start fewer ranks there (--nproc-per-node), or show it more GPUs: `nvidia-smi -L` lists "
         "them, CUDA_VISIBLE_DEVICES hides some"});
  }
  for (std::size_t r = 0; r < cards.size(); ++r) {
    const auto same = [&](const GpuCard& card) { return card.id == cards[r].id; };
    const auto first = std::find_if(cards.begin(), cards.end(), same) - cards.begin();
    if (first == static_cast<std::ptrdiff_t>(r)) continue;
    throw EnvironmentFault(
        {"LS-4017", name(r),
         "it would share a GPU with rank " + std::to_string(first) + " (" + cards[r].id +
             "): NCCL needs one a rank",
         "start fewer ranks there, or show each rank another GPU (srun --gpus-per-task=1, or "
         "CUDA_VISIBLE_DEVICES of each)"});
  }
}

EnvironmentFault no_gpu(const std::string& where, const std::string& cause) {
  return EnvironmentFault(
      {"LS-4017", where, "NCCL needs a GPU, and none answers: " + cause,
       "`nvidia-smi` must list a GPU here: install NVIDIA's driver, or give the container its GPUs "
       "(--gpus all); CUDA_VISIBLE_DEVICES may hide it. Without one take LOCKSTEP_BACKEND=auto"});
}

EnvironmentFault no_nccl_in_this_build(const std::string& where) {
  return EnvironmentFault(
      {"LS-4016", where, "this build of lockstep has no NCCL: it was built without CUDA",
       "`make cuda` builds one that has, in build/cuda/bin. Ranks without GPUs, and `lockstep "
       "train`, which computes on CPUs, take LOCKSTEP_BACKEND=auto"});
}

std::string nccl_cause(const std::string& what) {
  std::string cause = line_after(what, "Last error:");
  if (cause.empty()) cause = line_after(what, "NCCL error in: ");
  if (cause.empty()) {
    cause = what.substr(0, what.find('\n'));
  } else if (const auto comma = cause.find(", "); cause.find(".cpp:") < comma) {
    cause.erase(0, comma + 2);  // "/pytorch/torch/csrc/.../NCCLUtils.cpp:94, unhandled cuda error"
  }
  cause.resize(std::min(cause.size(), kCauseLength));
  return cause;
}

}  // namespace lockstep::comm
