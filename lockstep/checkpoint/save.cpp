#include <ATen/ATen.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/agree.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/dtype.h"
#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/checkpoint/format/tensor_file.h"
#include "lockstep/checkpoint/gather_texts.h"
#include "lockstep/checkpoint/save_plan.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using engine::TrainState;
using nlohmann::json;

constexpr int kFirst = 0;  // makes the folder and writes the manifest
// Room for headers and manifest: about 300 bytes a tensor and rank that writes a part of it.
constexpr std::uint64_t kHeadBytesPerTensor = 1024;
// A network file system may show others a new folder late.
constexpr std::chrono::seconds kSharedWithin{10};

std::uint64_t needed_bytes(const SavePlan& plan) {
  return plan.bytes + kHeadBytesPerTensor * plan.tensors.size();
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

/// "model.safetensors"; of several ranks "model-00002-of-00004.safetensors". Weights lie apart from
/// optimizer state, so that other programs can open the first alone.
std::string file_name(bool of_optimizer, const comm::Group& group) {
  const std::string stem = of_optimizer ? "optimizer" : "model";
  if (group.size() == 1) return stem + ".safetensors";
  const auto five = [](int number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return stem + "-" + five(group.rank() + 1) + "-of-" + five(group.size()) + ".safetensors";
}

/// Pieces by the place of their tensor in SavePlan::tensors, and the files they lie in.
struct WrittenFiles {
  std::vector<std::pair<std::size_t, Piece>> pieces;
  std::map<std::string, std::uint64_t> file_bytes;
};

/// Writes what this rank writes of the weights, or of the optimizer state.
void write_file(const fs::path& path, const SavePlan& plan, const std::vector<at::Tensor>& parts,
                bool of_optimizer, WrittenFiles& written) {
  std::map<std::string, std::size_t> own;  // name -> place in plan.own
  std::vector<TensorInfo> infos;
  for (std::size_t i = 0; i < plan.own.size(); ++i) {
    const ManifestTensor& tensor = plan.tensors[plan.own[i].tensor];
    if ((tensor.kind == "optimizer") != of_optimizer) continue;
    LOCKSTEP_CHECK(own.emplace(tensor.name, i).second, "two parts of " + tensor.name);
    infos.push_back({tensor.name, tensor.dtype, plan.own[i].box.shape});
  }
  if (infos.empty()) return;
  TensorFile file(path, std::move(infos), {{"format", "pt"}});
  for (const TensorInfo& info : file.tensors()) {
    const std::size_t place = own.at(info.name);
    const at::Tensor bytes = parts[place].cpu().contiguous();
    Piece piece =
        file.write({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()});
    piece.offset = plan.own[place].box.offset;
    written.pieces.emplace_back(plan.own[place].tensor, std::move(piece));
  }
  written.file_bytes[path.filename().string()] = file.commit();
}

/// For gather_texts().
std::string to_text(const WrittenFiles& written) {
  json pieces = json::array();
  for (const auto& [tensor, piece] : written.pieces) {
    pieces.push_back({tensor, piece_to_json(piece)});
  }
  return json({pieces, written.file_bytes.empty() ? json::object() : json(written.file_bytes)})
      .dump();
}

void add(const std::string& text, Manifest& manifest) {
  const json document = json::parse(text);
  for (const json& one : document.at(0)) {
    manifest.tensors.at(one.at(0)).pieces.push_back(piece_from_json(one.at(1).get<std::string>()));
  }
  for (const auto& [name, bytes] : document.at(1).items()) manifest.file_bytes[name] = bytes;
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

void write_manifest_file(const fs::path& dir, const Manifest& manifest) {
  AtomicFile file(dir / kManifestName);
  const std::string text = write_manifest(manifest);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
}

/// The folder that the first rank made, as this rank sees it.
fs::path shared_draft(const fs::path& checkpoints_dir, const std::string& name) {
  const fs::path draft = checkpoints_dir / name;
  const auto until = std::chrono::steady_clock::now() + kSharedWithin;
  std::error_code missing;
  while (!fs::is_directory(draft, missing)) {
    if (std::chrono::steady_clock::now() > until) {
      throw EnvironmentFault({"LS-5018", draft.string(),
                              "the folder that rank 0 made is not here: the ranks do not share "
                              "this file system",
                              "set checkpoint.dir to a folder that every host mounts"});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return draft;
}

}  // namespace

fs::path write_save(const SaveParts& save, const fs::path& checkpoints_dir, comm::Group& group,
                    int keep) {
  const bool is_first = group.rank() == kFirst;
  const std::uint64_t need = needed_bytes(save.plan);
  std::optional<StepDraft> draft;
  const auto first_does = [&](const std::function<void()>& work) {
    run_on_all(group, [&] {
      if (is_first) write_or_explain(checkpoints_dir, need, work);
    });
  };
  first_does([&] {
    draft.emplace(checkpoints_dir, save.described.step);
    if (fs::space(checkpoints_dir).available < need) throw_no_room(checkpoints_dir, need);
  });
  const std::string name =
      comm::broadcast_text(group, draft ? draft->path().filename().string() : "", kFirst);
  WrittenFiles written;
  run_on_all(group, [&] {
    const fs::path dir = shared_draft(checkpoints_dir, name);
    write_or_explain(checkpoints_dir, need, [&] {
      for (const bool of_optimizer : {false, true}) {
        write_file(dir / file_name(of_optimizer, group), save.plan, save.parts, of_optimizer,
                   written);
      }
    });
  });
  const std::vector<std::string> texts = gather_texts(group, to_text(written));
  first_does([&] {
    Manifest manifest = save.described;
    manifest.tensors = save.plan.tensors;
    for (const std::string& text : texts) add(text, manifest);
    write_manifest_file(draft->path(), manifest);
    draft->commit();
  });
  first_does([&] { remove_old_steps(checkpoints_dir, keep); });
  return checkpoints_dir / ("step-" + std::to_string(save.described.step));
}

SaveParts parts_of(const TrainState& state, const SaveInfo& info, comm::Group& group) {
  SaveParts save{describe(state, info, group.size()), plan_save(state, group), {}};
  for (const OwnPart& part : save.plan.own) save.parts.push_back(view_of(state, part));
  return save;
}

fs::path save(const TrainState& state, const fs::path& checkpoints_dir, const SaveInfo& info,
              comm::Group& group, int keep) {
  return write_save(parts_of(state, info, group), checkpoints_dir, group, keep);
}

}  // namespace lockstep::checkpoint
