// Which GPU a rank takes, and what can be wrong with GPUs and NCCL, in words. Needs neither.
#pragma once
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/host_layout.h"

namespace lockstep::comm {

/// What a rank tells the others of its GPUs.
struct GpuCard {
  int visible = 0;    // to its process
  std::string id{};   // of the one it takes, unique among all machines; empty = none
  std::string why{};  // it sees none
};

[[nodiscard]] std::string to_text(const GpuCard& card);
/// Missing parts stay empty: the text comes from another process.
[[nodiscard]] GpuCard read_gpu_card(const std::string& text);

/// The index of the GPU that the `local`-th rank of a host takes: its own number, or the only one
/// that the starter shows it. May be one that is not there: see check_gpus().
[[nodiscard]] int gpu_of(int local, int visible);

/// \param cards of all ranks. \param host_names of all ranks, for people.
/// \throws EnvironmentFault (LS-4017), the same on every rank, when a rank is left without a GPU or
/// two would share one: NCCL needs one for each.
void check_gpus(const std::vector<GpuCard>& cards, const HostLayout& layout,
                const std::vector<std::string>& host_names);

/// \param where the rank is. \param cause what CUDA says.
[[nodiscard]] EnvironmentFault no_gpu(const std::string& where, const std::string& cause);
[[nodiscard]] EnvironmentFault no_nccl_in_this_build(const std::string& where);

/// What an exception of ProcessGroupNCCL says went wrong, on one line: NCCL's last error where it
/// has one, without source positions.
[[nodiscard]] std::string nccl_cause(const std::string& what);

}  // namespace lockstep::comm
