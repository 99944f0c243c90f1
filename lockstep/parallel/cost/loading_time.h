// Reading the samples of a step: beside the computing, by hosts that have a rate of their own.
#pragma once
#include "lockstep/model/stats/model_stats.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/topology/machine.h"

namespace lockstep::parallel {

/// What a host gets its samples from; 0 = not known.
struct DataSource {
  double sample_bytes = 0;   // as they are stored
  double bytes_per_s = 0;    // that a host reads
  double samples_per_s = 0;  // that a host reads and prepares
  /// Of a host.
  [[nodiscard]] double most_samples_per_s() const;
  [[nodiscard]] bool has_rate() const { return bytes_per_s > 0 || samples_per_s > 0; }
};

/// Stored bytes of a sample: tokens as Megatron-LM's indexed data sets have them (2 bytes each, 4
/// for more than 65,499 words), pixels of 8 bits, rows of a table as they are handed on.
[[nodiscard]] double stored_sample_bytes(const model::ModelStats& model, double vocabulary);

/// Samples of a step that the host reads which reads most. Ranks that share a sample (tensor,
/// context) read it once in each host that has one of them; of a pipeline the first stage reads,
/// and its ranks lie together.
[[nodiscard]] double samples_of_host(const Layout& layout, const Machine& machine);

/// That the samples of a step take; 0 where no rate is known.
[[nodiscard]] double loading_s(const DataSource& source, const Layout& layout,
                               const Machine& machine);

/// A host's rate from which on a step of so many seconds does not wait.
[[nodiscard]] double needed_bytes_per_s(const DataSource& source, const Layout& layout,
                                        const Machine& machine, double step_s);

}  // namespace lockstep::parallel
