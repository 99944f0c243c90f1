#include <ATen/ATen.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/agree.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/dtype.h"
#include "lockstep/checkpoint/format/tensor_file.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using engine::StateEntry;
using engine::StateKind;
using engine::TrainState;

constexpr int kWriter = 0;
// Weights apart from optimizer state, so that other programs can open the first alone.
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
// Room for headers and manifest: about 300 bytes a tensor.
constexpr std::uint64_t kHeadBytesPerEntry = 1024;

std::string kind_name(StateKind kind) {
  switch (kind) {
    case StateKind::parameter:
      return "parameter";
    case StateKind::buffer:
      return "buffer";
    case StateKind::optimizer:
      return "optimizer";
  }
  return "";
}

std::uint64_t needed_bytes(const TrainState& state) {
  std::uint64_t bytes = 0;
  for (const StateEntry& entry : state.entries) bytes += entry.tensor.nbytes() + kHeadBytesPerEntry;
  return bytes;
}

std::string free_text(const fs::path& dir) {
  std::error_code unknown;
  const auto space = fs::space(dir, unknown);
  return unknown ? "?" : format_bytes(static_cast<std::int64_t>(space.available));
}

[[noreturn]] void throw_no_room(const fs::path& dir, std::uint64_t need) {
  throw EnvironmentFault({"LS-5001", dir.string(),
                          "no room for the checkpoint: it needs " +
                              format_bytes(static_cast<std::int64_t>(need)) + ", free are " +
                              free_text(dir),
                          "free some space, lower checkpoint.keep, or set checkpoint.dir"});
}

/// A refusal of the system becomes ours, with path, need and free space.
void write_or_explain(const fs::path& dir, std::uint64_t need, const std::function<void()>& work) {
  try {
    work();
  } catch (const fs::filesystem_error& error) {
    const int code = error.code().value();
    if (code == ENOSPC || code == EDQUOT) throw_no_room(dir, need);
    throw EnvironmentFault({"LS-5002", error.path1().string(),
                            std::string(error.what()) + "; the checkpoint needs " +
                                format_bytes(static_cast<std::int64_t>(need)) + ", free are " +
                                free_text(dir),
                            "make the folder writable, or set checkpoint.dir"});
  }
}

/// Writes the entries into one file and adds them to the manifest.
void write_file(const fs::path& path, const std::map<std::string, const StateEntry*>& entries,
                Manifest& manifest) {
  std::vector<TensorInfo> infos;
  for (const auto& [name, entry] : entries) {
    infos.push_back({name, dtype_name(entry->tensor.scalar_type()), entry->global_shape});
  }
  TensorFile file(path, std::move(infos), {{"format", "pt"}});
  for (const TensorInfo& info : file.tensors()) {
    const StateEntry& entry = *entries.at(info.name);
    const at::Tensor bytes = entry.tensor.detach().cpu().contiguous();
    const Piece piece =
        file.write({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()});
    manifest.tensors.push_back(
        {info.name, kind_name(entry.kind), info.dtype, info.shape, entry.aliases, {piece}});
  }
  manifest.file_bytes[path.filename().string()] = file.commit();
}

Manifest describe(const TrainState& state, const SaveInfo& info, int world_size) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.epoch = state.position.epoch;
  manifest.sample = state.position.sample;
  manifest.skipped_steps = state.skipped_steps;
  manifest.loss_scale = state.loss_scale.scale;
  manifest.good_steps = state.loss_scale.good_steps;
  manifest.seed = info.seed;
  manifest.config_hash = info.config_hash;
  manifest.config_json = info.config_json;
  manifest.world_size = world_size;
  manifest.layout = info.layout;
  manifest.versions = info.versions;
  manifest.versions["libtorch"] = TORCH_VERSION;
  return manifest;
}

void write_files(const fs::path& dir, const TrainState& state, Manifest manifest) {
  std::map<std::string, const StateEntry*> model;
  std::map<std::string, const StateEntry*> optimizer;
  for (const StateEntry& entry : state.entries) {
    LOCKSTEP_CHECK(entry.tensor.sizes().equals(entry.global_shape),
                   "a shard cannot be saved as a whole tensor: " + entry.name);
    auto& file = entry.kind == StateKind::optimizer ? optimizer : model;
    LOCKSTEP_CHECK(file.emplace(entry.name, &entry).second, "two entries named " + entry.name);
  }
  write_file(dir / kModelFile, model, manifest);
  if (!optimizer.empty()) write_file(dir / kOptimizerFile, optimizer, manifest);
  AtomicFile file(dir / kManifestName);
  const std::string text = write_manifest(manifest);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

}  // namespace

fs::path save(const TrainState& state, const fs::path& checkpoints_dir, const SaveInfo& info,
              comm::Group& group, int keep) {
  const bool writes = group.rank() == kWriter;
  const std::uint64_t need = needed_bytes(state);
  std::optional<StepDraft> draft;
  const auto writer_does = [&](const std::function<void()>& work) {
    run_on_all(group, [&] {
      if (writes) write_or_explain(checkpoints_dir, need, work);
    });
  };
  writer_does([&] {
    draft.emplace(checkpoints_dir, state.step);
    if (fs::space(checkpoints_dir).available < need) throw_no_room(checkpoints_dir, need);
    write_files(draft->path(), state, describe(state, info, group.size()));
  });
  writer_does([&] { draft->commit(); });
  writer_does([&] { remove_old_steps(checkpoints_dir, keep); });
  return checkpoints_dir / ("step-" + std::to_string(state.step));
}

}  // namespace lockstep::checkpoint
