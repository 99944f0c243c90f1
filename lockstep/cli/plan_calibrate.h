// lockstep plan --calibrate: measures this machine and keeps what plans of runs on it go by.
#pragma once
#include "lockstep/base/error.h"
#include "lockstep/cli/command.h"

namespace lockstep::cli {

/// Times operators on one rank and on as many as there are cores, and all_reduce between ranks;
/// shows progress; writes rates_file(). \param prints the result too.
/// \throws Error where a rank fails or the file cannot be kept.
void calibrate(const Context& context, bool prints);

}  // namespace lockstep::cli
