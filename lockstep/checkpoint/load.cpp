#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/agree.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/dtype.h"
#include "lockstep/checkpoint/format/step_reader.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using engine::StateEntry;
using engine::TrainState;

struct Match {
  const ManifestTensor* stored = nullptr;
  at::Tensor live;
};

/// Every stored tensor under its name and its aliases.
std::map<std::string, const ManifestTensor*> by_name(const Manifest& manifest) {
  std::map<std::string, const ManifestTensor*> names;
  for (const ManifestTensor& tensor : manifest.tensors) {
    for (const std::string& alias : tensor.aliases) names.emplace(alias, &tensor);
  }
  for (const ManifestTensor& tensor : manifest.tensors) names[tensor.name] = &tensor;
  return names;
}

const ManifestTensor* find(const std::map<std::string, const ManifestTensor*>& names,
                           const StateEntry& entry) {
  auto found = names.find(entry.name);
  for (auto alias = entry.aliases.begin(); found == names.end() && alias != entry.aliases.end();
       ++alias) {
    found = names.find(*alias);
  }
  return found == names.end() ? nullptr : found->second;
}

std::string listed(const std::vector<std::string>& faults) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(faults.size(), kShown); ++i) {
    text += (i == 0 ? "" : "; ") + faults[i];
  }
  if (faults.size() > kShown) text += "; and " + std::to_string(faults.size() - kShown) + " more";
  return text;
}

/// Pairs stored and live tensors. \throws BadData naming every one without a partner.
std::vector<Match> match(const TrainState& state, const Manifest& manifest, const fs::path& dir) {
  const auto names = by_name(manifest);
  std::vector<Match> matches;
  std::vector<std::string> faults;
  std::set<const ManifestTensor*> used;
  for (const StateEntry& entry : state.entries) {
    const ManifestTensor* stored = find(names, entry);
    if (stored == nullptr) {
      faults.push_back(entry.name + " is missing");
      continue;
    }
    used.insert(stored);
    const std::string dtype = dtype_name(entry.tensor.scalar_type());
    if (stored->shape != entry.global_shape || stored->dtype != dtype) {
      faults.push_back(entry.name + " is " + stored->dtype + " " + to_text(stored->shape) +
                       ", the run has " + dtype + " " + to_text(entry.global_shape));
    }
    matches.push_back({stored, entry.tensor.detach()});
  }
  for (const ManifestTensor& stored : manifest.tensors) {
    if (used.count(&stored) == 0) faults.push_back(stored.name + " has no place in the run");
  }
  if (faults.empty()) return matches;
  throw BadData({"LS-5006", dir.string(), "the checkpoint is of another model: " + listed(faults),
                 "resume with the configuration it was saved with (\"config\" in its manifest)"});
}

/// Reads straight into the live memory where that is contiguous.
void fill(at::Tensor live, const ManifestTensor& stored, const StepReader& reader) {
  for (const Piece& piece : stored.pieces) {
    at::Tensor target = live;
    for (std::size_t dim = 0; dim < piece.shape.size(); ++dim) {
      target = target.narrow(static_cast<std::int64_t>(dim), piece.offset[dim], piece.shape[dim]);
    }
    const bool direct = target.is_contiguous() && target.device().is_cpu();
    at::Tensor bytes = direct ? target : at::empty(piece.shape, target.options().device(at::kCPU));
    reader.read(stored, piece, {static_cast<std::byte*>(bytes.mutable_data_ptr()), bytes.nbytes()});
    if (!direct) target.copy_(bytes);
  }
}

}  // namespace

Manifest load(TrainState& state, const fs::path& step_dir, comm::Group& group) {
  std::optional<StepReader> reader;
  std::vector<Match> matches;
  run_on_all(group, [&] {
    reader.emplace(step_dir);
    matches = match(state, reader->manifest(), step_dir);
  });
  run_on_all(group, [&] {
    for (const Match& pair : matches) fill(pair.live, *pair.stored, *reader);
  });
  const Manifest& manifest = reader->manifest();
  state.step = manifest.step;
  state.position = {manifest.epoch, manifest.sample};
  state.skipped_steps = manifest.skipped_steps;
  state.loss_scale = {manifest.loss_scale, manifest.good_steps};
  return manifest;
}

}  // namespace lockstep::checkpoint
