#include "lockstep/checkpoint/tools/open_checkpoint.h"

#include <algorithm>
#include <array>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/dcp_folder.h"
#include "lockstep/checkpoint/foreign/deepspeed_folder.h"
#include "lockstep/checkpoint/foreign/torch_file.h"
#include "lockstep/checkpoint/format/safetensors_source.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/format/step_source.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using Kind = CheckpointKind;

OpenCheckpoint open_step(const fs::path& path, const OpenOptions&) {
  return {std::make_unique<StepSource>(path), path};
}

OpenCheckpoint open_run(const fs::path& path, const OpenOptions& options) {
  const auto newest = newest_complete(path);
  if (newest) return open_step(*newest, options);
  throw BadData({"LS-5003", path.string(), "its last complete checkpoint has just been removed",
                 "look again: `lockstep ckpt list " + path.string() + "`"});
}

OpenCheckpoint open_safetensors(const fs::path& path, const OpenOptions& options) {
  return {std::make_unique<SafetensorsSource>(path, options.max_header_bytes), path};
}

OpenCheckpoint open_torch(const fs::path& path, const OpenOptions&) {
  return {std::make_unique<TorchFileSource>(path), path};
}

OpenCheckpoint open_dcp(const fs::path& path, const OpenOptions&) {
  return {std::make_unique<DcpSource>(path), path};
}

OpenCheckpoint open_deepspeed(const fs::path& path, const OpenOptions&) {
  return {std::make_unique<DeepSpeedSource>(path), path};
}

/// How each kind is opened: a reader more is a line.
struct Opener {
  Kind kind;
  OpenCheckpoint (*open)(const fs::path& path, const OpenOptions& options);
};
constexpr auto kOpeners = std::to_array<Opener>({
    {Kind::step, open_step},
    {Kind::run, open_run},
    {Kind::safetensors, open_safetensors},
    {Kind::torch, open_torch},
    {Kind::dcp, open_dcp},
    {Kind::deepspeed, open_deepspeed},
});

}  // namespace

OpenCheckpoint open_checkpoint(const fs::path& path, const OpenOptions& options) {
  const FolderKind found = folder_kind(path);
  if (found.kind == Kind::nothing) throw BadData(problem_of(found));
  const auto opener = std::find_if(kOpeners.begin(), kOpeners.end(),
                                   [&](const Opener& row) { return row.kind == found.kind; });
  LOCKSTEP_CHECK(opener != kOpeners.end(), "a kind of checkpoint without a reader");
  return opener->open(found.path, options);
}

}  // namespace lockstep::checkpoint
