#include "lockstep/parallel/exchange/registry.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/parallel/exchange/narrow.h"
#include "lockstep/parallel/exchange/plain.h"
#include "lockstep/parallel/exchange/powersgd.h"

namespace lockstep::parallel {
namespace {

constexpr auto kExchanges = std::to_array<ExchangeRow>({
    {"fp32", make_plain_exchange},
    {"bf16", make_bf16_exchange},
    {"fp16", make_fp16_exchange},
    {"powersgd", make_powersgd_exchange},
});

}  // namespace

std::unique_ptr<Exchange> make_exchange(std::string_view name, const ExchangeSetting& setting) {
  const auto* row = std::find_if(kExchanges.begin(), kExchanges.end(),
                                 [&](const ExchangeRow& r) { return r.name == name; });
  if (row == kExchanges.end()) {
    throw UsageError(
        {{"LS-7004", "exchange", "gradients are not exchanged as '" + std::string(name) + "'",
          "take fp32, bf16, fp16 or powersgd"}});
  }
  return row->make(setting);
}

}  // namespace lockstep::parallel
