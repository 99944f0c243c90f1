#include "lockstep/data/formats/check_data.h"

#include <string>
#include <utility>

#include "lockstep/data/formats/byte_source.h"
#include "lockstep/data/formats/cifar.h"
#include "lockstep/data/formats/data_size.h"
#include "lockstep/data/formats/idx.h"

namespace lockstep::data {
namespace {

using config::DataFormat;
using config::Family;

constexpr std::int64_t kByteTokens = 256;

/// One of the two parts of [data].
struct Part {
  const char* key;
  const std::string& location;
  bool train;
};

class Checker {
 public:
  explicit Checker(const config::RunConfig& config) : config_(config) {}

  std::vector<DataFault> check() {
    for (Problem& problem : check_data_kind(config_)) add(Exit::usage, std::move(problem));
    const config::DataSection& data = config_.data;
    if (data.format == DataFormat::synthetic) return std::move(faults_);
    if (data.train.empty()) {
      add(Exit::usage, {"LS-2001", "data.train", "names no data",
                        "name a file or folder, or set data.format = \"synthetic\""});
    }
    look_at({"data.train", data.train, true});
    look_at({"data.eval", data.eval, false});
    return std::move(faults_);
  }

 private:
  void add(Exit exit, Problem problem) { faults_.push_back({exit, std::move(problem)}); }

  /// What a reader says of a file is a fault of the key that names it.
  void look_at(const Part& part) {
    if (part.location.empty()) return;
    try {
      look_into(part);
    } catch (const Error& error) {
      for (const Problem& problem : error.problems()) {
        add(error.exit(),
            {problem.code, part.key, problem.where + ": " + problem.what, problem.fix});
      }
    }
  }

  void look_into(const Part& part) {
    switch (config_.data.format) {
      case DataFormat::idx:
        return check_idx(part);
      case DataFormat::cifar:
        check_cifar_files(part.location, part.train ? CifarPart::train : CifarPart::test);
        return check_shape(part, {kCifarChannels, kCifarSide, kCifarSide});
      case DataFormat::text:
        return check_text(part);
      case DataFormat::synthetic:
        return;
    }
  }

  void check_idx(const Part& part) {
    const auto dims = check_idx_files(part.location, part.train ? IdxPart::train : IdxPart::test);
    check_shape(part, {1, dims[1], dims[2]});
  }

  void check_shape(const Part& part, const ImageShape& found) {
    for (Problem& problem : check_image_shape(config_.model, part.key, found)) {
      add(Exit::usage, std::move(problem));
    }
  }

  void check_text(const Part& part) {
    if (part.location.starts_with('!')) return;  // a program's text is known when it has run
    const auto source = open_file(part.location);
    if (source->compressed()) return;
    const auto bytes = static_cast<std::int64_t>(source->at_most_bytes());
    for (Problem& problem : check_text_size(bytes, config_.data, part.train)) {
      add(Exit::usage, std::move(problem));
    }
  }

  const config::RunConfig& config_;
  std::vector<DataFault> faults_;
};

std::string bytes_text(std::int64_t bytes) {
  return std::to_string(bytes) + (bytes == 1 ? " byte" : " bytes");
}

}  // namespace

std::vector<Problem> check_image_shape(const config::ModelSection& model, const std::string& key,
                                       const ImageShape& found) {
  const std::string shape = std::to_string(found.channels) + " x " + std::to_string(found.height) +
                            " x " + std::to_string(found.width);
  std::vector<Problem> problems;
  const auto compare = [&](const std::string& option, std::int64_t configured,
                           std::int64_t expected) {
    if (configured == expected) return;
    problems.push_back({"LS-2007", option,
                        std::to_string(configured) + ", but the images of " + key + " are " + shape,
                        "set " + option + " = " + std::to_string(expected)});
  };
  if (model.family == Family::mlp) {
    compare("model.inputs", model.inputs, found.channels * found.height * found.width);
  } else if (model.family == Family::resnet) {
    compare("model.channels", model.channels, found.channels);
    compare("model.image_size", model.image_size, found.height);
    if (found.width != found.height) compare("model.image_size", model.image_size, found.width);
  }
  return problems;
}

std::vector<Problem> check_text_size(std::int64_t bytes, const config::DataSection& data,
                                     bool train) {
  const std::string needs =
      "; one sample needs data.seq_len + 1 = " + std::to_string(data.seq_len + 1);
  const char* const fix = "use a smaller data.seq_len or more text";
  if (!train || !data.eval.empty() || data.eval_fraction <= 0) {
    if (bytes > data.seq_len) return {};
    return {{"LS-2008", train ? "data.train" : "data.eval", bytes_text(bytes) + " of text" + needs,
             fix}};
  }
  const TextSamples cut = text_samples(bytes, data);
  std::vector<Problem> problems;
  const std::string of = " of " + bytes_text(bytes) + " of text: data.eval_fraction holds out " +
                         std::to_string(cut.eval_bytes);
  const std::string of_held_out = " of " + bytes_text(bytes) + " of text are held out";
  if (cut.train == 0) {
    problems.push_back(
        {"LS-2008", "data.train", bytes_text(cut.train_bytes) + " are left" + of + needs, fix});
  }
  if (cut.eval == 0) {
    problems.push_back({"LS-2008", "data.eval_fraction",
                        std::to_string(cut.eval_bytes) + of_held_out + needs,
                        "hold out a larger share, or none with data.eval_fraction = 0"});
  }
  return problems;
}

std::vector<Problem> check_data_kind(const config::RunConfig& config) {
  const bool gpt = config.model.family == Family::gpt;
  const DataFormat format = config.data.format;
  if (gpt && (format == DataFormat::idx || format == DataFormat::cifar)) {
    return {{"LS-2007", "data.format", "images, but model.family = \"gpt\" reads tokens",
             "set data.format = \"text\" or \"synthetic\""}};
  }
  if (format != DataFormat::text) return {};
  if (!gpt) {
    return {{"LS-2007", "data.format", "text, but only model.family = \"gpt\" reads tokens",
             "set model.family = \"gpt\", or another data.format"}};
  }
  if (config.model.vocab_size >= kByteTokens) return {};
  return {{"LS-2007", "model.vocab_size",
           std::to_string(config.model.vocab_size) + ", but a byte of text is one of 256 tokens",
           "set model.vocab_size = 256"}};
}

std::vector<DataFault> check_data(const config::RunConfig& config) {
  return Checker(config).check();
}

}  // namespace lockstep::data
