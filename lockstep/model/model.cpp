#include "lockstep/model/model.h"

#include <ATen/ATen.h>

#include <map>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/model/gpt.h"
#include "lockstep/model/init.h"
#include "lockstep/model/mlp.h"
#include "lockstep/model/resnet.h"

namespace lockstep::model {
namespace {

struct FamilyRow {
  config::Family family;
  std::unique_ptr<Model> (*make)(const config::ModelSection& config, std::int64_t seq_len,
                                 Initializer& init);
};

/// One row per model family.
constexpr FamilyRow kFamilies[] = {
    {config::Family::mlp, [](const config::ModelSection& config, std::int64_t,
                             Initializer& init) { return make_mlp(config, init); }},
    {config::Family::resnet, [](const config::ModelSection& config, std::int64_t,
                                Initializer& init) { return make_resnet(config, init); }},
    {config::Family::gpt, make_gpt},
};

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Modules of normalisation are known by their class name, so that LibTorch's own count too.
bool is_norm(const torch::nn::Module& module) {
  return module.name().find("Norm") != std::string::npos;
}

/// Tensors that a module itself holds (not its children), with their names.
Tensors own_parameters(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_parameters(/*recurse=*/false)) {
    tensors.emplace_back(item.key(), item.value());
  }
  return tensors;
}

Tensors own_buffers(const torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& item : module.named_buffers(/*recurse=*/false)) {
    tensors.emplace_back(item.key(), item.value());
  }
  return tensors;
}

/// Collects tensors over all blocks; a tensor met again adds an alias to its first name.
std::vector<NamedTensor> collect(const Model& model, Tensors (*own)(const torch::nn::Module&),
                                 bool all_keep_fp32) {
  std::vector<NamedTensor> found;
  std::map<const c10::TensorImpl*, std::size_t> place;
  for (std::size_t b = 0; b < model.blocks().size(); ++b) {
    for (const auto& item : model.blocks()[b]->named_modules(model.block_names()[b])) {
      const bool keep_fp32 = all_keep_fp32 || is_norm(*item.value());
      for (const auto& [key, tensor] : own(*item.value())) {
        const std::string name = item.key() + "." + key;
        const auto [at, is_new] = place.try_emplace(tensor.unsafeGetTensorImpl(), found.size());
        if (is_new) {
          found.push_back({name, tensor, {}, keep_fp32});
        } else {
          found[at->second].aliases.push_back(name);
        }
      }
    }
  }
  return found;
}

}  // namespace

std::vector<NamedTensor> named_parameters(const Model& model) {
  return collect(model, own_parameters, /*all_keep_fp32=*/false);
}

std::vector<NamedTensor> named_buffers(const Model& model) {
  return collect(model, own_buffers, /*all_keep_fp32=*/true);
}

std::unique_ptr<Model> make_model(const config::ModelSection& config, std::int64_t seq_len,
                                  std::uint64_t seed) {
  std::vector<Problem> problems = check_model(config);
  if (!problems.empty()) throw UsageError(std::move(problems));
  Initializer init(seed);
  for (const FamilyRow& row : kFamilies) {
    if (row.family == config.family) return row.make(config, seq_len, init);
  }
  throw Bug(__FILE__, __LINE__, "a model family without a row in the table");
}

}  // namespace lockstep::model
