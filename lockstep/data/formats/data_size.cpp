#include "lockstep/data/formats/data_size.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/saturated.h"
#include "lockstep/data/formats/byte_source.h"
#include "lockstep/data/formats/cifar.h"
#include "lockstep/data/formats/idx.h"

namespace lockstep::data {
namespace {

std::int64_t limited(std::int64_t samples, std::int64_t limit) {
  return limit > 0 ? std::min(samples, limit) : samples;
}

/// One of the two parts of [data].
struct Part {
  Saturated bytes;
  std::int64_t samples = 0;
};

// A pixel and a label are one byte each.
Part idx_part(const std::string& location, IdxPart part, std::int64_t limit) {
  const std::vector<std::int64_t> dims = read_idx_dims(location, part);
  const std::int64_t samples = limited(dims[0], limit);
  return {(Saturated(dims[1]) * dims[2] + 1) * samples, samples};
}

Part cifar_part(const std::string& location, CifarPart part, std::int64_t limit) {
  const std::int64_t samples = limited(count_cifar_images(location, part), limit);
  return {Saturated(samples) * (kCifarPixels + 1), samples};
}

std::int64_t text_bytes(const std::string& location) {
  if (location.starts_with('!')) return 0;
  const auto source = open_file(location);
  return source->compressed() ? 0 : static_cast<std::int64_t>(source->at_most_bytes());
}

Part text_part(const config::DataSection& data, bool train) {
  const std::int64_t bytes = text_bytes(train ? data.train : data.eval);
  if (!train) return {bytes, 0};
  return {bytes, limited(text_samples(bytes, data).train, data.train_samples)};
}

Part look_at(const config::DataSection& data, bool train) {
  const std::string& location = train ? data.train : data.eval;
  const std::int64_t limit = train ? data.train_samples : data.eval_samples;
  if (data.format == config::DataFormat::synthetic) {
    return {0, limit > 0 ? limit : kDefaultSyntheticSamples};
  }
  if (location.empty()) return {};
  switch (data.format) {
    case config::DataFormat::idx:
      return idx_part(location, train ? IdxPart::train : IdxPart::test, limit);
    case config::DataFormat::cifar:
      return cifar_part(location, train ? CifarPart::train : CifarPart::test, limit);
    case config::DataFormat::text:
      return text_part(data, train);
    case config::DataFormat::synthetic:
      break;
  }
  return {};
}

}  // namespace

TextSamples text_samples(std::int64_t bytes, const config::DataSection& data) {
  const bool held_out = data.eval.empty() && data.eval_fraction > 0;
  TextSamples samples;
  samples.eval_bytes = held_out ? std::llround(static_cast<double>(bytes) * data.eval_fraction) : 0;
  samples.train_bytes = bytes - samples.eval_bytes;
  samples.train = std::max<std::int64_t>(0, samples.train_bytes - 1) / data.seq_len;
  samples.eval = std::max<std::int64_t>(0, samples.eval_bytes - 1) / data.seq_len;
  return samples;
}

DataSize data_size(const config::DataSection& data) {
  DataSize size;
  Saturated bytes;
  for (const bool train : {true, false}) {
    try {
      const Part part = look_at(data, train);
      bytes += part.bytes;
      if (train && part.samples > 0) size.samples_per_epoch = part.samples;
    } catch (const Error&) {
      // A plan does not need the data: opening them for the run reports what is wrong.
    }
  }
  size.resident_bytes = bytes.value();
  return size;
}

}  // namespace lockstep::data
