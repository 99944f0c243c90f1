// Gradients as they are, in fp32.
#pragma once
#include "lockstep/parallel/exchange/exchange.h"

namespace lockstep::parallel {

[[nodiscard]] std::unique_ptr<Exchange> make_plain_exchange(const ExchangeSetting& setting);

}  // namespace lockstep::parallel
