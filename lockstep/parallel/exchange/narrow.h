// Gradients in 16 bits on the wire: half the bytes, sums in fp32, rounded once
// (over several hosts once inside a host and once between them).
#pragma once
#include "lockstep/parallel/exchange/exchange.h"

namespace lockstep::parallel {

[[nodiscard]] std::unique_ptr<Exchange> make_bf16_exchange(const ExchangeSetting& setting);
/// Divides by ExchangeSetting::weight on the wire: sums over a batch would leave fp16's range.
[[nodiscard]] std::unique_ptr<Exchange> make_fp16_exchange(const ExchangeSetting& setting);

}  // namespace lockstep::parallel
