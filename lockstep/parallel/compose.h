// Builds the session of a plan: a model, and the plan's strategies applied to it in order.
#pragma once
#include <memory>
#include <span>

#include "lockstep/parallel/session.h"
#include "lockstep/parallel/strategy.h"

namespace lockstep::parallel {

/// Collective over setting.groups.world. \param strategies the registry (strategies/registry.h).
/// \throws UsageError when the plan names a strategy that is not in the registry.
[[nodiscard]] std::unique_ptr<Session> compose(const BuildSetting& setting,
                                               std::unique_ptr<model::Model> model,
                                               std::span<const Strategy> strategies);

}  // namespace lockstep::parallel
