#include "lockstep/worker/start_weights.h"

#include <ATen/Functions.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/tools/open_checkpoint.h"
#include "lockstep/checkpoint/weights/match_weights.h"
#include "lockstep/checkpoint/weights/read_fp32.h"
#include "lockstep/checkpoint/weights/weights_path.h"
#include "lockstep/config/cache_folder.h"
#include "lockstep/config/registry.h"

namespace lockstep::worker {
namespace {

using checkpoint::WantedTensor;
using model::NamedTensor;

/// All that a file of weights can hold, in the order of the model.
std::vector<NamedTensor> tensors_of(const model::Model& model) {
  std::vector<NamedTensor> tensors = model::named_parameters(model);
  for (NamedTensor& buffer : model::named_buffers(model)) {
    if (at::isFloatingType(buffer.tensor.scalar_type())) tensors.push_back(std::move(buffer));
  }
  return tensors;
}

std::vector<WantedTensor> wanted(const std::vector<NamedTensor>& tensors) {
  std::vector<WantedTensor> wanted;
  for (const NamedTensor& one : tensors) {
    wanted.push_back({one.name, "F32", one.tensor.sizes().vec(), one.aliases});
  }
  return wanted;
}

/// Through memory of its own: the live tensor may lie in another order (channels last).
void fill(const checkpoint::TensorSource& source, const checkpoint::NamedView& view,
          at::Tensor live) {
  const at::Tensor values = at::empty(live.sizes(), at::kFloat);
  checkpoint::read_fp32(
      source, view, {values.mutable_data_ptr<float>(), static_cast<std::size_t>(values.numel())});
  live.detach().copy_(values);
}

}  // namespace

std::vector<std::string> load_start_weights(const config::RunConfig& config,
                                            const model::Model& model) {
  if (config.model.weights.empty()) return {};
  const checkpoint::TagRegistry tags(config::tags_folder());
  const auto path = checkpoint::weights_path(config.model.weights, tags);
  auto open = checkpoint::open_checkpoint(path);
  const std::vector<NamedTensor> tensors = tensors_of(model);
  const std::string_view family = config::word_of(*config::find_option("model.family"), config);
  const checkpoint::WeightsMatch match = checkpoint::match_weights(
      std::move(open.source), family, wanted(tensors),
      {config.model.weights_partial, config.model.weights_strip}, open.path.string());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (match.views[i]) fill(*match.source, *match.views[i], tensors[i].tensor);
  }
  std::vector<std::string> notes{"starting from the weights of " + open.path.string()};
  notes.insert(notes.end(), match.notes.begin(), match.notes.end());
  return notes;
}

}  // namespace lockstep::worker
