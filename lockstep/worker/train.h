// The training job of one rank: wires data, model, session, trainer and observers together.
#pragma once
#include "lockstep/base/error.h"
#include "lockstep/config/starter.h"
#include "lockstep/worker/rank_args.h"

namespace lockstep::worker {

/// \returns done, or requeue when it was stopped on request with its state saved. \throws Error.
[[nodiscard]] Exit run_train(const RankArgs& args, const config::RankEnv& env);

}  // namespace lockstep::worker
