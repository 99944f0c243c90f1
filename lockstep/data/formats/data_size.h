// How much memory the data sets of a run will hold, told from headers and file sizes: for the plan.
#pragma once
#include <cstdint>
#include <optional>

#include "lockstep/config/run_config.h"

namespace lockstep::data {

/// Bytes that the data sets of [data] keep resident in each rank. Reads no data, runs no program:
/// what a command prints, a compressed text and what cannot be opened count 0.
[[nodiscard]] std::int64_t resident_bytes(const config::DataSection& data);

/// Samples of synthetic data where data.train_samples does not say.
inline constexpr std::int64_t kDefaultSyntheticSamples = 8192;

/// How a text of some bytes is cut: eval is what data.eval_fraction holds out.
struct TextSamples {
  std::int64_t train_bytes = 0;
  std::int64_t eval_bytes = 0;
  std::int64_t train = 0;  // samples of data.seq_len tokens and the next one
  std::int64_t eval = 0;
};
[[nodiscard]] TextSamples text_samples(std::int64_t bytes, const config::DataSection& data);

/// Samples of an epoch, told in the same way; nothing where that cannot be.
[[nodiscard]] std::optional<std::int64_t> train_samples(const config::DataSection& data);

}  // namespace lockstep::data
