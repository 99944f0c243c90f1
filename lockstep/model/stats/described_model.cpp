#include "lockstep/model/stats/described_model.h"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <system_error>

#include "lockstep/base/units.h"
#include "lockstep/config/run_file.h"
#include "lockstep/model/stats/hugging_face.h"
#include "lockstep/model/stats/known_models.h"

namespace lockstep::model {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{16} << 20;  // of a config.json

/// The file that `name` means; empty when it is a model's name.
std::string file_of(const std::string& name) {
  std::error_code missing;
  const fs::path inside = fs::path(name) / "config.json";
  if (fs::is_directory(name, missing) && fs::exists(inside, missing)) return inside.string();
  const bool is_file = fs::exists(name, missing) && !fs::is_directory(name, missing);
  return is_file || name.ends_with(".json") ? name : std::string();
}

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : "-") + std::to_string(number);
  }
  return text.empty() ? "none" : text;
}

std::string transformer_in_words(const Architecture& a) {
  std::string text = format_count(a.layers) + " layers";
  if (a.kind == ArchitectureKind::encoder_decoder) {
    text += " and " + format_count(a.decoder_layers) + " of the decoder";
  }
  text += ", " + format_count(a.width) + " wide, " + counted(a.heads, "head");
  if (a.kv_heads != a.heads) text += " with " + format_count(a.kv_heads) + " of keys and values";
  text += ", feed-forward " + format_count(a.feed_forward);
  if (a.experts.experts > 0) {
    text += ", " + counted(a.experts.experts, "expert") + " of which a token passes " +
            format_count(a.experts.per_token);
  }
  return text + ", vocabulary " + format_count(a.vocabulary);
}

}  // namespace

DescribedModel described_model(const std::string& name, const std::string& where) {
  const std::string file = file_of(name);
  if (!file.empty()) {
    const std::string text = config::read_run_file(file, kMostBytes, "the model's config.json");
    return read_hugging_face(text, file);
  }
  DescribedModel model{known_model(name, where).architecture, "", {}};
  const ArchitectureKind kind = model.architecture.kind;
  if (kind == ArchitectureKind::encoder) model.assumptions.emplace_back(kPoolerAssumption);
  if (kind == ArchitectureKind::encoder_decoder) {
    model.assumptions.emplace_back(kEqualSidesAssumption);
  }
  return model;
}

std::string in_words(const Architecture& a) {
  switch (a.kind) {
    case ArchitectureKind::decoder:
    case ArchitectureKind::encoder:
    case ArchitectureKind::encoder_decoder:
      return transformer_in_words(a);
    case ArchitectureKind::resnet:
      return "stages of " + listed(a.stage_blocks) + (a.bottleneck ? " bottlenecks" : " blocks") +
             ", " + listed(a.stage_widths) + " wide, images of " + std::to_string(a.image_size) +
             " x " + std::to_string(a.image_size);
    case ArchitectureKind::mlp:
      return format_count(a.inputs) + " inputs, layers " + listed(a.hidden) + ", " +
             format_count(a.classes) + " outputs";
    case ArchitectureKind::dlrm:
    case ArchitectureKind::wide_deep:
      break;
  }
  return counted(static_cast<std::int64_t>(a.table_rows.size()), "table") + " " +
         format_count(a.embedding_width) + " wide, " + format_count(a.inputs) +
         " dense inputs, layers " + listed(a.hidden);
}

std::vector<std::string> keys_that_build(const Architecture& a) {
  const auto key = [](const char* name, std::int64_t value) {
    return std::string(name) + " = " + std::to_string(value);
  };
  if (a.kind == ArchitectureKind::mlp && !a.hidden.empty()) {
    const std::int64_t width = a.hidden.front();
    const bool same = std::all_of(a.hidden.begin(), a.hidden.end(),
                                  [&](std::int64_t one) { return one == width; });
    if (!same || a.classes < 2) return {};
    return {"family = \"mlp\"", key("layers", static_cast<std::int64_t>(a.hidden.size())),
            key("width", width), key("inputs", a.inputs), key("classes", a.classes)};
  }
  const bool is_gpt = a.kind == ArchitectureKind::decoder && a.positions == Positions::learned &&
                      a.experts.experts == 0 && !a.gated && !a.relu && !a.rms_norm && a.norm_bias &&
                      !a.norm_after && !a.one_norm && !a.qk_norm && a.biased && a.tied;
  const bool is_plain = a.kv_heads == a.heads && a.head_width * a.heads == a.width &&
                        a.feed_forward == 4 * a.width &&
                        (a.embedding_width == 0 || a.embedding_width == a.width);
  if (!is_gpt || !is_plain) return {};
  return {"family = \"gpt\"", key("layers", a.layers), key("width", a.width), key("heads", a.heads),
          key("vocab_size", a.vocabulary)};
}

std::vector<Problem> check_trainable(const config::ModelSection& config) {
  if (config.config.empty()) return {};
  try {
    const Architecture architecture = described_model(config.config, "model.config").architecture;
    const std::vector<std::string> keys = keys_that_build(architecture);
    std::string to_train = "to train, choose model.family";
    if (!keys.empty()) {
      to_train = "to train it, write in its place";
      for (const std::string& key : keys) to_train += (key == keys.front() ? " " : ", ") + key;
    }
    return {{"LS-6026", "model.config",
             config.config + " (" + in_words(architecture) +
                 ") is described, and what is described can be planned but not trained",
             "plan it on devices, as in `lockstep plan RUN.toml --gpus 8 --gpu H100-80G`; " +
                 to_train}};
  } catch (const UsageError& error) {
    return error.problems();
  }
}

}  // namespace lockstep::model
