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

// A pixel and a label are one byte each.
std::int64_t idx_bytes(const std::string& location, IdxPart part, std::int64_t limit) {
  const std::vector<std::int64_t> dims = read_idx_dims(location, part);
  return ((Saturated(dims[1]) * dims[2] + 1) * limited(dims[0], limit)).value();
}

std::int64_t cifar_bytes(const std::string& location, CifarPart part, std::int64_t limit) {
  return limited(count_cifar_images(location, part), limit) * (kCifarPixels + 1);
}

std::int64_t text_bytes(const std::string& location) {
  if (location.starts_with('!')) return 0;
  const auto source = open_file(location);
  return source->compressed() ? 0 : static_cast<std::int64_t>(source->at_most_bytes());
}

std::int64_t part_bytes(const config::DataSection& data, bool train) {
  const std::string& location = train ? data.train : data.eval;
  const std::int64_t limit = train ? data.train_samples : data.eval_samples;
  if (location.empty()) return 0;
  switch (data.format) {
    case config::DataFormat::idx:
      return idx_bytes(location, train ? IdxPart::train : IdxPart::test, limit);
    case config::DataFormat::cifar:
      return cifar_bytes(location, train ? CifarPart::train : CifarPart::test, limit);
    case config::DataFormat::text:
      return text_bytes(location);
    case config::DataFormat::synthetic:
      break;
  }
  return 0;
}

/// 0 where it is not known, or nothing is left.
std::int64_t count_train_samples(const config::DataSection& data) {
  switch (data.format) {
    case config::DataFormat::synthetic:
      return data.train_samples > 0 ? data.train_samples : kDefaultSyntheticSamples;
    case config::DataFormat::idx:
      return limited(read_idx_dims(data.train, IdxPart::train)[0], data.train_samples);
    case config::DataFormat::cifar:
      return limited(count_cifar_images(data.train, CifarPart::train), data.train_samples);
    case config::DataFormat::text:
      break;
  }
  return limited(text_samples(text_bytes(data.train), data).train, data.train_samples);
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

std::optional<std::int64_t> train_samples(const config::DataSection& data) {
  try {
    const std::int64_t samples = count_train_samples(data);
    if (samples > 0) return samples;
  } catch (const Error&) {
    // Opening the data for the run reports what is wrong.
  }
  return std::nullopt;
}

std::int64_t resident_bytes(const config::DataSection& data) {
  Saturated bytes;
  for (const bool train : {true, false}) {
    try {
      bytes += part_bytes(data, train);
    } catch (const Error&) {
      // A plan does not need the data: opening them for the run reports what is wrong.
    }
  }
  return bytes.value();
}

}  // namespace lockstep::data
