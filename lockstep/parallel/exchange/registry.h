// All ways to exchange gradients. What each costs: parallel/cost/exchange_cost.h.
#pragma once
#include <string_view>

#include "lockstep/parallel/exchange/exchange.h"

namespace lockstep::parallel {

struct ExchangeRow {
  std::string_view name;  // as ParallelPlan::exchange
  std::unique_ptr<Exchange> (*make)(const ExchangeSetting& setting);
};

/// \throws UsageError (LS-7004) when there is no such row.
[[nodiscard]] std::unique_ptr<Exchange> make_exchange(std::string_view name,
                                                      const ExchangeSetting& setting);

}  // namespace lockstep::parallel
