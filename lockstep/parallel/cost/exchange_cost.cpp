#include "lockstep/parallel/cost/exchange_cost.h"

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/saturated.h"
#include "lockstep/parallel/plan/powersgd_rule.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t kNarrowBytes = 2;

std::int64_t bytes_of(std::int64_t elements, std::int64_t each) {
  return (Saturated(elements) * each).value();
}

ExchangeBytes plain(const ExchangedParameter& parameter, std::int64_t /*rank*/) {
  return {bytes_of(parameter.padded, kFp32Bytes), 0, 0};
}

ExchangeBytes narrow(const ExchangedParameter& parameter, std::int64_t rank) {
  if (parameter.in_last) return plain(parameter, rank);
  const std::int64_t bytes = bytes_of(parameter.padded, kNarrowBytes);
  return {bytes, bytes, 0};
}

/// n rows, m columns: r (n + m) numbers travel, and r m of the step before are kept to begin with.
ExchangeBytes powersgd(const ExchangedParameter& parameter, std::int64_t wanted_rank) {
  ExchangeBytes raw = plain(parameter, wanted_rank);
  raw.staged = raw.sent;
  if (parameter.shape.size() < 2) return raw;
  const std::int64_t rows = parameter.shape.front();
  Saturated all(rows);
  Saturated columns(1);
  for (auto size = parameter.shape.begin() + 1; size != parameter.shape.end(); ++size) {
    columns = columns * *size;
    all = all * *size;
  }
  const std::int64_t rank = powersgd_rank(wanted_rank, rows, columns.value());
  if (rank == 0) return raw;
  const std::int64_t factors = ((Saturated(rows) + columns) * rank).value();
  const std::int64_t sent = factors + parameter.padded - all.value();
  const std::int64_t start = (columns * rank).value();
  return {bytes_of(sent, kFp32Bytes), bytes_of((Saturated(sent) + start).value(), kFp32Bytes),
          bytes_of(all.value(), kFp32Bytes)};
}

constexpr auto kExchanges = std::to_array<ExchangeCost>({
    {"fp32", plain},
    {"bf16", narrow},
    {"fp16", narrow},
    {"powersgd", powersgd, true},
});

}  // namespace

const ExchangeCost& exchange_cost(std::string_view name) {
  const auto* row = std::find_if(kExchanges.begin(), kExchanges.end(),
                                 [&](const ExchangeCost& cost) { return cost.name == name; });
  LOCKSTEP_CHECK(row != kExchanges.end(), "no cost of exchanging as " + std::string(name));
  return *row;
}

std::string exchange_name(const config::RunConfig& config) {
  if (config.parallel.gradient_compression == config::Compression::powersgd) return "powersgd";
  if (config.precision.reduce == config::Dtype::bf16) return "bf16";
  return config.precision.reduce == config::Dtype::fp16 ? "fp16" : "fp32";
}

}  // namespace lockstep::parallel
