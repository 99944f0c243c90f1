// How large the data sets of a run are, told from headers and file sizes: for the plan.
#pragma once
#include <cstdint>
#include <optional>

#include "lockstep/config/run_config.h"

namespace lockstep::data {

struct DataSize {
  std::int64_t resident_bytes = 0;  // that the data sets keep in each rank's memory; 0 = unknown
  std::optional<std::int64_t> samples_per_epoch{};  // of data.train; nothing where it is unknown
};

/// The data sets of [data]. Reads no data, runs no program: what a command prints, compressed text
/// or CIFAR and what cannot be opened count nothing.
[[nodiscard]] DataSize data_size(const config::DataSection& data);

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

}  // namespace lockstep::data
