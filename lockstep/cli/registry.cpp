// The command table. A new command is its file, its function in commands.h and a line here.
#include <algorithm>
#include <array>

#include "lockstep/cli/command.h"
#include "lockstep/cli/commands.h"

namespace lockstep::cli {

std::span<const Command> commands() {
  static const std::array kCommands{
      train_command(),         launch_command(),        plan_command(),
      bench_comm_command(),    bench_scaling_command(), bench_checkpoint_command(),
      bench_kernels_command(), doctor_watch_command(),  ckpt_list_command(),
      ckpt_inspect_command(),  ckpt_verify_command(),   ckpt_convert_command(),
      ckpt_reshard_command(),  ckpt_diff_command(),     ckpt_tag_command(),
      submit_command(),        completion_command(),    help_command(),
  };
  return kCommands;
}

const Command* find_command(std::string_view name) {
  const auto table = commands();
  const auto row = std::find_if(table.begin(), table.end(),
                                [&](const Command& command) { return command.name == name; });
  return row == table.end() ? nullptr : &*row;
}

}  // namespace lockstep::cli
