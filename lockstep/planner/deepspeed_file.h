// What a plan reads of DeepSpeed's ds_config.json: how states are shared and where they are.
#pragma once
#include <string>
#include <string_view>

#include "lockstep/parallel/plan/layout.h"

namespace lockstep::planner {

struct DeepSpeedFile {
  int zero = 0;
  parallel::Offload offload_optimizer = parallel::Offload::none;
  parallel::Offload offload_parameters = parallel::Offload::none;
};

/// zero_optimization: stage, offload_optimizer.device, offload_param.device, and their old names
/// cpu_offload and cpu_offload_params. \param where the file, for messages. \throws UsageError
/// LS-6115 with all that cannot be read.
[[nodiscard]] DeepSpeedFile read_deepspeed_file(std::string_view json, const std::string& where);

}  // namespace lockstep::planner
