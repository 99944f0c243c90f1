// From [data] and [model] to data sets: one opener per format, and whether data and model fit.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/formats/check_data.h"
#include "lockstep/data/formats/cifar.h"
#include "lockstep/data/formats/data_size.h"
#include "lockstep/data/formats/idx.h"
#include "lockstep/data/formats/text.h"
#include "lockstep/data/image_dataset.h"
#include "lockstep/data/synthetic_dataset.h"
#include "lockstep/data/text_dataset.h"

namespace lockstep::data {
namespace {

using config::DataSection;
using config::Family;
using config::ModelSection;
using config::RunConfig;

void require(std::vector<Problem> problems) {
  if (!problems.empty()) throw UsageError(std::move(problems));
}

void require_not_empty(const Dataset& dataset, const std::string& key, const std::string& what) {
  if (dataset.size() > 0) return;
  throw UsageError(
      {{"LS-2008", key, what, "see data.train_samples, data.eval_fraction, data.seq_len"}});
}

void check_images(const ModelSection& model, const LabelledImages& images, const std::string& key,
                  const std::string& location) {
  require(check_image_shape(model, key, {images.channels, images.height, images.width}));
  const auto largest = std::max_element(images.labels.begin(), images.labels.end());
  if (largest != images.labels.end() && *largest >= model.classes) {
    throw UsageError({{"LS-2004", "model.classes",
                       std::to_string(model.classes) + ", but " + location + " has label " +
                           std::to_string(*largest) + " (sample " +
                           std::to_string(largest - images.labels.begin()) + ")",
                       "set model.classes to the number of classes in the data"}});
  }
}

void keep_first(LabelledImages& images, std::int64_t samples) {
  if (samples <= 0 || samples >= images.count) return;
  images.pixels.resize(static_cast<std::size_t>(samples * images.pixels_per_image()));
  images.pixels.shrink_to_fit();
  images.labels.resize(static_cast<std::size_t>(samples));
  images.count = samples;
}

struct ImagePart {
  std::string key;       // "data.train"
  std::string location;  // what it names
  bool train = true;
  std::int64_t max_samples = 0;
};

std::unique_ptr<Dataset> open_images(const RunConfig& config, const ImagePart& part) {
  LabelledImages images =
      config.data.format == config::DataFormat::idx
          ? read_idx_images(part.location, part.train ? IdxPart::train : IdxPart::test)
          : read_cifar(part.location, part.train ? CifarPart::train : CifarPart::test);
  keep_first(images, part.max_samples);
  if (images.count > 0) check_images(config.model, images, part.key, part.location);
  const ImageOptions options{.flat = config.model.family == Family::mlp,
                             .augment = config.data.augment,
                             .mean = config.data.mean,
                             .std = config.data.std};
  auto dataset = std::make_unique<ImageDataset>(std::move(images), options);
  require_not_empty(*dataset, part.key, part.location + " holds no image");
  return dataset;
}

DataPair open_image_pair(const RunConfig& config) {
  const DataSection& data = config.data;
  DataPair pair;
  pair.train = open_images(config, {"data.train", data.train, true, data.train_samples});
  if (!data.eval.empty()) {
    pair.eval = open_images(config, {"data.eval", data.eval, false, data.eval_samples});
  }
  return pair;
}

std::unique_ptr<Dataset> make_text(const DataSection& data, const TextDataset::Text& text,
                                   std::int64_t first, std::int64_t count, bool train) {
  return std::make_unique<TextDataset>(text, first, count, data.seq_len,
                                       train ? data.train_samples : data.eval_samples);
}

DataPair open_text(const RunConfig& config) {
  const DataSection& data = config.data;
  const auto read = [](const std::string& location) {
    return std::make_shared<const std::vector<std::uint8_t>>(read_text(location));
  };
  const TextDataset::Text text = read(data.train);
  const auto bytes = static_cast<std::int64_t>(text->size());
  require(check_text_size(bytes, data, true));
  const TextSamples cut = text_samples(bytes, data);
  DataPair pair;
  pair.train = make_text(data, text, 0, cut.train_bytes, true);
  if (cut.eval_bytes > 0) {
    pair.eval = make_text(data, text, cut.train_bytes, cut.eval_bytes, false);
  }
  if (!data.eval.empty()) {
    const TextDataset::Text eval_text = read(data.eval);
    const auto eval_bytes = static_cast<std::int64_t>(eval_text->size());
    require(check_text_size(eval_bytes, data, false));
    pair.eval = make_text(data, eval_text, 0, eval_bytes, false);
  }
  return pair;
}

std::unique_ptr<Dataset> make_synthetic(const RunConfig& config, std::int64_t samples,
                                        SyntheticPart part) {
  const ModelSection& model = config.model;
  switch (model.family) {
    case Family::mlp:
      return std::make_unique<SyntheticClasses>(std::vector<std::int64_t>{model.inputs},
                                                model.classes, samples, part);
    case Family::resnet:
      return std::make_unique<SyntheticClasses>(
          std::vector<std::int64_t>{model.channels, model.image_size, model.image_size},
          model.classes, samples, part);
    case Family::gpt:
      return std::make_unique<SyntheticTokens>(config.data.seq_len, model.vocab_size, samples,
                                               part);
  }
  LOCKSTEP_CHECK(false, "a model family without synthetic data");
}

DataPair open_synthetic(const RunConfig& config) {
  const DataSection& data = config.data;
  const std::int64_t samples =
      data.train_samples > 0 ? data.train_samples : kDefaultSyntheticSamples;
  DataPair pair;
  pair.train = make_synthetic(config, samples, SyntheticPart::train);
  if (data.eval_samples > 0) {
    pair.eval = make_synthetic(config, data.eval_samples, SyntheticPart::eval);
  }
  return pair;
}

}  // namespace

DataPair open_data(const RunConfig& config) {
  if (config.data.format == config::DataFormat::synthetic) return open_synthetic(config);
  if (config.data.train.empty()) {
    throw UsageError({{"LS-2001", "data.train", "names no data",
                       "name a file or folder, or set data.format = \"synthetic\""}});
  }
  require(check_data_kind(config));
  if (config.data.format == config::DataFormat::text) return open_text(config);
  return open_image_pair(config);
}

}  // namespace lockstep::data
