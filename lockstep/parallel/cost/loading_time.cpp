#include "lockstep/parallel/cost/loading_time.h"

#include <algorithm>
#include <cmath>

namespace lockstep::parallel {

double DataSource::most_samples_per_s() const {
  if (bytes_per_s <= 0 || sample_bytes <= 0) return samples_per_s;
  const double read = bytes_per_s / sample_bytes;
  return samples_per_s > 0 ? std::min(read, samples_per_s) : read;
}

double stored_sample_bytes(const model::ModelStats& model, double vocabulary) {
  // Megatron-LM, megatron/core/datasets/indexed_dataset.py: optimal_dtype
  constexpr double kMostShort = 65'500;
  if (model.counts_tokens) {
    return static_cast<double>(model.tokens_per_sample) * (vocabulary < kMostShort ? 2 : 4);
  }
  constexpr double kFp32Bytes = 4;  // of a pixel's colour, where it is computed with
  const auto handed_on = static_cast<double>(model.input_bytes_per_sample);
  return model.family == "resnet" ? handed_on / kFp32Bytes : handed_on;
}

double samples_of_host(const Layout& layout, const Machine& machine) {
  const auto batch = static_cast<double>(layout.global_batch());
  const auto per_host = static_cast<double>(std::max(1, machine.devices_per_host));
  const double readers = static_cast<double>(layout.devices()) / layout.pipeline;
  // A host that has a part of a data rank reads all of that rank's samples.
  const double most = std::max(batch * per_host / readers, batch / layout.data);
  return std::ceil(std::min(batch, most));
}

double loading_s(const DataSource& source, const Layout& layout, const Machine& machine) {
  const double rate = source.most_samples_per_s();
  return rate > 0 ? samples_of_host(layout, machine) / rate : 0;
}

double needed_bytes_per_s(const DataSource& source, const Layout& layout, const Machine& machine,
                          double step_s) {
  return step_s > 0 ? samples_of_host(layout, machine) * source.sample_bytes / step_s : 0;
}

}  // namespace lockstep::parallel
