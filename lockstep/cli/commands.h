// One function per command: its row of the table. cli/registry.cpp puts them in order.
#pragma once
#include "lockstep/cli/command.h"

namespace lockstep::cli {

[[nodiscard]] Command train_command();
[[nodiscard]] Command launch_command();
[[nodiscard]] Command plan_command();
[[nodiscard]] Command bench_comm_command();
[[nodiscard]] Command bench_scaling_command();
[[nodiscard]] Command bench_checkpoint_command();
[[nodiscard]] Command bench_kernels_command();
[[nodiscard]] Command doctor_watch_command();
[[nodiscard]] Command ckpt_list_command();
[[nodiscard]] Command ckpt_inspect_command();
[[nodiscard]] Command ckpt_verify_command();
[[nodiscard]] Command ckpt_convert_command();
[[nodiscard]] Command ckpt_reshard_command();
[[nodiscard]] Command ckpt_diff_command();
[[nodiscard]] Command ckpt_tag_command();
[[nodiscard]] Command submit_command();
[[nodiscard]] Command completion_command();
[[nodiscard]] Command help_command();

}  // namespace lockstep::cli
