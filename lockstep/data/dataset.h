// A set of samples that can be read in any order.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/config/run_config.h"
#include "lockstep/data/batch.h"

namespace lockstep::data {

class Dataset {
 public:
  virtual ~Dataset() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;  // samples
  /// Whether a loss weight counts tokens (text) and not samples.
  [[nodiscard]] virtual bool counts_tokens() const = 0;
  /// Bytes it keeps in memory outside of tensors.
  [[nodiscard]] virtual std::int64_t resident_bytes() const { return 0; }
  /// Makes a batch of the samples `ids`, in that order. Thread-safe.
  /// \param augment_key draws augmentation from (key, id); 0 = no augmentation (evaluation).
  [[nodiscard]] virtual Batch collate(std::span<const std::int64_t> ids,
                                      std::uint64_t augment_key) const = 0;
};

struct DataPair {
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> eval;  // null = none configured
};

/// Opens what [data] names. \throws EnvironmentFault when a package or file is missing (naming the
/// Debian package where known), BadData with file and offset when it is corrupt.
[[nodiscard]] DataPair open_data(const config::RunConfig& config);

}  // namespace lockstep::data
