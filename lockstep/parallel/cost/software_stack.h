// How a training program spends its time beside the mathematics: what its exchange hides behind,
// how it computes attention. Facts from its source or paper, and at most one fitted constant.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace lockstep::parallel {

/// What the one constant of a stack multiplies. A stack of fewer than three published rows has
/// none.
enum class StackConstant : std::uint8_t {
  none,
  device_time,  // of all operators
  gather_rate,  // of what a device receives while parameters are gathered
  hand_over,    // of what a pipeline stage hands to the next
};

struct SoftwareStack {
  std::string_view name;    // as in published_runs.csv, column software
  std::string_view source;  // of the facts
  /// Flash attention: of FlashAttention-2's rate; 0 where scores are written out.
  /// Layout::flash_attention decides.
  double flash = 1;
  bool sequence = false;  // runs sequence parallelism unasked
  // Shares of the tensor ranks' exchange that nothing hides; the last where sequence parallelism
  // gathers once more in backward.
  double exposed_forward = 1;
  double exposed_backward = 1;
  double exposed_sequence_backward = 1;
  double exposed_data = 1;          // of the data ranks' exchange after the last backward
  bool linear_exchange = false;     // data ranks add up in one place (MPI on CPUs)
  bool flat_gather = false;         // parameters reach each device through its own network card
  bool skips_last_product = false;  // recomputation stops before it: nothing needs its result
  bool scatters_hand_over = false;  // a stage hands over 1/t and gathers inside the host
  StackConstant kind = StackConstant::none;
  double constant = 1;
};

[[nodiscard]] std::span<const SoftwareStack> software_stacks();
/// Null when there is none of that name.
[[nodiscard]] const SoftwareStack* find_stack(std::string_view name);
/// What plans assume where nobody names a stack: today's usual, "Megatron-Core 0.8" with tensor or
/// pipeline ranks, else "PyTorch FSDP".
[[nodiscard]] const SoftwareStack& usual_stack(bool splits_layers);

}  // namespace lockstep::parallel
