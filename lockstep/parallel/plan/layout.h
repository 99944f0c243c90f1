// How a model is spread over devices, as a value: what a search enumerates and a cost is asked for.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/parallel/plan/precision_recipe.h"

namespace lockstep::parallel {

enum class Recompute : std::uint8_t { none, selective, full };
enum class PipelineSchedule : std::uint8_t { none, gpipe, one_f_one_b, interleaved };
enum class Offload : std::uint8_t { none, cpu, nvme };

struct Layout {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int expert = 1;   // divides data x context
  int context = 1;  // a sample's tokens over so many ranks
  int tables = 1;   // data ranks that share the rows of embedding tables; divides data
  int zero = 0;     // stage: 1 optimizer, 2 and gradients, 3 and parameters
  /// Stages 2 and 3 in a pipeline: weights stay gathered and gradients whole until the step's last
  /// micro-batch.
  bool keeps_gathered = false;
  int shard = 0;          // ranks that states are spread over; 0 = all of data x context
  bool sequence = false;  // norms and dropout shared over the tensor ranks
  PipelineSchedule schedule = PipelineSchedule::none;
  int chunks = 1;                    // of a pipeline rank (interleaved)
  std::vector<std::int64_t> cuts{};  // layers of each piece (pipeline x chunks); empty = even
  std::int64_t micro_batch = 1;      // samples of one forward
  std::int64_t accumulation = 1;     // micro-batches of one data rank a step
  Recompute recompute = Recompute::none;
  bool flash_attention = false;
  Offload offload_optimizer = Offload::none;
  Offload offload_parameters = Offload::none;
  int secondary_shard =
      0;  // ranks that share a second copy of the weights (hpZ); 0 = there is none

  [[nodiscard]] std::int64_t devices() const {
    return std::int64_t{1} * data * tensor * pipeline * context;
  }
  [[nodiscard]] std::int64_t global_batch() const { return micro_batch * accumulation * data; }
  /// Weights are gathered for each layer and micro-batch.
  [[nodiscard]] bool gathers_often() const { return zero >= 3 && !keeps_gathered; }
  /// Gradients are reduced behind each micro-batch, because there is room for a share of the sums.
  [[nodiscard]] bool reduces_often() const { return zero >= 2 && !keeps_gathered; }
  /// Ranks with the same parameters: their gradients are added up.
  [[nodiscard]] std::int64_t replicas() const { return std::int64_t{1} * data * context; }
};

[[nodiscard]] std::string_view to_text(Recompute recompute);
[[nodiscard]] std::string_view to_text(PipelineSchedule schedule);
[[nodiscard]] std::string_view to_text(Offload offload);

}  // namespace lockstep::parallel
