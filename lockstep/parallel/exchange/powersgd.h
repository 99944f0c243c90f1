// PowerSGD (Vogels et al. 2019): matrices of gradients travel as two thin factors, and what these
// leave out is added to the next step's gradient.
#pragma once
#include "lockstep/parallel/exchange/exchange.h"

namespace lockstep::parallel {

/// A matrix of n rows and m columns costs r (n + m) numbers instead of n m where that is less, with
/// r = min(rank, n, m); all else travels as it is. Keeps 4 n m bytes of such matrices on each rank:
/// its own error, which is no part of a checkpoint.
[[nodiscard]] std::unique_ptr<Exchange> make_powersgd_exchange(const ExchangeSetting& setting);

}  // namespace lockstep::parallel
