#include <ATen/ATen.h>
#include <torch/headeronly/version.h>

#include <chrono>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/agree.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/dtype.h"
#include "lockstep/checkpoint/format/disk_fault.h"
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

/// A refusal of the system becomes ours, with path, need and free space.
void write_or_explain(const DiskUse& use, const std::function<void()>& work) {
  try {
    work();
  } catch (const fs::filesystem_error& error) {
    throw disk_fault(error, use);
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
  manifest.data_hash = info.data_hash;
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
      if (missing && missing != std::errc::no_such_file_or_directory) {
        throw fs::filesystem_error("cannot look at the folder", draft, missing);
      }
      throw EnvironmentFault({"LS-5018", draft.string(),
                              "the folder that rank 0 made is not here: the ranks do not share "
                              "this file system",
                              "set checkpoint.dir to a folder that every host mounts"});
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return draft;
}

/// The checkpoint of now is whole: that of before may stay. The next save tries again.
std::optional<Problem> remove_old(const fs::path& checkpoints_dir, int keep) {
  try {
    remove_old_steps(checkpoints_dir, keep);
  } catch (const fs::filesystem_error& error) {
    return disk_fault(error, {checkpoints_dir, 0, "remove the oldest folders step-N by hand"})
        .problems()
        .front();
  }
  return std::nullopt;
}

/// One save, from this rank's side.
class Writing {
 public:
  Writing(const SaveParts& save, const fs::path& checkpoints_dir, comm::Group& group)
      : save_(save),
        group_(group),
        use_{checkpoints_dir, needed_bytes(save.plan), "set checkpoint.dir to another disk"} {}

  /// Collective. Until it returns there is no new checkpoint.
  void run() {
    try {
      begin();
      const WrittenFiles written = write_files();
      end(gather_texts(group_, to_text(written)));
    } catch (const PeerLost&) {  // who is not heard may still write
      if (draft_) draft_->leave();
      throw;
    }
  }

  void on_first(const std::function<void()>& work) {
    run_on_all(group_, [&] {
      if (group_.rank() == kFirst) write_or_explain(use_, work);
    });
  }

 private:
  void begin() {
    on_first([&] {
      draft_.emplace(use_.folder, save_.described.step);
      require_room(use_);
    });
    name_ = comm::broadcast_text(group_, draft_ ? draft_->path().filename().string() : "", kFirst);
  }

  WrittenFiles write_files() {
    WrittenFiles written;
    run_on_all(group_, [&] {
      write_or_explain(use_, [&] {
        const fs::path dir = shared_draft(use_.folder, name_);
        for (const bool of_optimizer : {false, true}) {
          write_file(dir / file_name(of_optimizer, group_), save_.plan, save_.parts, of_optimizer,
                     written);
        }
      });
    });
    return written;
  }

  void end(const std::vector<std::string>& texts) {
    on_first([&] {
      Manifest manifest = save_.described;
      manifest.tensors = save_.plan.tensors;
      for (const std::string& text : texts) add(text, manifest);
      write_manifest_file(draft_->path(), manifest);
      draft_->commit();
    });
  }

  const SaveParts& save_;
  comm::Group& group_;
  const DiskUse use_;
  std::optional<StepDraft> draft_;  // of the first rank
  std::string name_;                // of the draft
};

}  // namespace

Saved write_save(const SaveParts& save, const fs::path& checkpoints_dir, comm::Group& group,
                 int keep) {
  Writing writing(save, checkpoints_dir, group);
  writing.run();
  Saved saved{checkpoints_dir / ("step-" + std::to_string(save.described.step))};
  writing.on_first([&] { saved.left = remove_old(checkpoints_dir, keep); });
  return saved;
}

SaveParts parts_of(const TrainState& state, const SaveInfo& info, comm::Group& group) {
  SaveParts save{describe(state, info, group.size()), plan_save(state, group), {}};
  for (const OwnPart& part : save.plan.own) save.parts.push_back(view_of(state, part));
  return save;
}

fs::path save(const TrainState& state, const fs::path& checkpoints_dir, const SaveInfo& info,
              comm::Group& group, int keep) {
  return write_save(parts_of(state, info, group), checkpoints_dir, group, keep).folder;
}

}  // namespace lockstep::checkpoint
