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
#include "lockstep/checkpoint/format/box_runs.h"
#include "lockstep/checkpoint/format/step_reader.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using engine::StateEntry;
using engine::TrainState;

struct Match {
  const ManifestTensor* stored = nullptr;
  at::Tensor live;
  Shape offset;  // of `live` in the whole tensor
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
    matches.push_back({stored, entry.tensor.detach(), entry.offset});
  }
  for (const ManifestTensor& stored : manifest.tensors) {
    if (used.count(&stored) == 0) faults.push_back(stored.name + " has no place in the run");
  }
  if (faults.empty()) return matches;
  throw BadData({"LS-5006", dir.string(), "the checkpoint is of another model: " + listed(faults),
                 "resume with the configuration it was saved with (\"config\" in its manifest)"});
}

/// Where box `a` and box `b` meet; nothing where they do not.
std::optional<Box> common(const Box& a, const Box& b) {
  Box both;
  for (std::size_t dim = 0; dim < a.shape.size(); ++dim) {
    const std::int64_t begin = std::max(a.offset[dim], b.offset[dim]);
    const std::int64_t end = std::min(a.offset[dim] + a.shape[dim], b.offset[dim] + b.shape[dim]);
    if (end <= begin) return std::nullopt;
    both.offset.push_back(begin);
    both.shape.push_back(end - begin);
  }
  return both;
}

at::Tensor part_of(at::Tensor tensor, const Box& box, const Shape& origin) {
  for (std::size_t dim = 0; dim < box.shape.size(); ++dim) {
    tensor = tensor.narrow(static_cast<std::int64_t>(dim), box.offset[dim] - origin[dim],
                           box.shape[dim]);
  }
  return tensor;
}

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()};
}

/// Reads the box `wanted` of the piece into `target`, which has its shape and lies in one stretch.
void read_box(PieceReader& reader, const Piece& piece, const Box& wanted,
              const at::Tensor& target) {
  Box inside = wanted;
  for (std::size_t dim = 0; dim < inside.offset.size(); ++dim) {
    inside.offset[dim] -= piece.offset[dim];
  }
  const BoxRuns runs(piece.shape, inside);
  const std::uint64_t width = target.element_size();
  std::span<std::byte> out = bytes_of(target);
  for (std::uint64_t run = 0; run < runs.count(); ++run) {
    const std::size_t bytes = runs.elements() * width;
    reader.read(runs.start(run) * width, out.first(bytes));
    out = out.subspan(bytes);
  }
}

/// Reads what this rank has of the tensor, and no more than that: straight into the live memory
/// where it lies in one stretch there.
void fill(const Match& match, const StepReader& reader) {
  const Box own{match.offset, match.live.sizes().vec()};
  for (const Piece& piece : match.stored->pieces) {
    const std::optional<Box> both = common(own, {piece.offset, piece.shape});
    if (!both) continue;
    const at::Tensor target = part_of(match.live, *both, match.offset);
    const bool direct = target.is_contiguous() && target.device().is_cpu();
    const at::Tensor bytes =
        direct ? target : at::empty(both->shape, target.options().device(at::kCPU));
    PieceReader of_piece(reader, *match.stored, piece);
    read_box(of_piece, piece, *both, bytes);
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
    for (const Match& pair : matches) fill(pair, *reader);
  });
  const Manifest& manifest = reader->manifest();
  state.step = manifest.step;
  state.position = {manifest.epoch, manifest.sample};
  state.skipped_steps = manifest.skipped_steps;
  state.loss_scale = {manifest.loss_scale, manifest.good_steps};
  return manifest;
}

}  // namespace lockstep::checkpoint
