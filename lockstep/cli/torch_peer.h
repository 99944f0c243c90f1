// torch.distributed.checkpoint beside ours: a script that the program writes out and a Python with
// PyTorch runs.
#pragma once
#include <string>
#include <vector>

#include "lockstep/checkpoint/bench/request.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

/// python3 on PATH. \throws EnvironmentFault (LS-7054) without one.
[[nodiscard]] std::string find_python(const Context& context);

/// What every rank of the other side runs: it saves and loads as `request` says and prints the
/// lines that our ranks report. \param script holds torch_script().
[[nodiscard]] std::vector<std::string> torch_command(const std::string& python,
                                                     const std::string& script,
                                                     const checkpoint::BenchRequest& request);
[[nodiscard]] const char* torch_script();

}  // namespace lockstep::cli
