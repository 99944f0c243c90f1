#include "lockstep/rundir/start.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/config/parse.h"
#include "lockstep/config/registry.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t kMaxSummaryBytes = 1U << 24;

bool is_utf8(const std::string& text) {
  try {
    (void)json(text).dump();
    return true;
  } catch (const json::exception&) {
    return false;
  }
}

/// Long values are cut: they are repeated to people.
std::string shown(const std::string& text) {
  constexpr std::size_t kMost = 200;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

void append(std::vector<Problem>& problems, const std::vector<Problem>& more) {
  problems.insert(problems.end(), more.begin(), more.end());
}

/// [model] as far as tensors depend on it: dropout has none, and pooling takes any image size.
bool is_read_by_model(const config::Option& option, std::string_view family) {
  if (option.key == "model.dropout" || option.key == "model.image_size") return false;
  const auto& words = option.read_when.words;
  return option.section() == "model" &&
         (words.empty() || std::find(words.begin(), words.end(), family) != words.end());
}

bool decides_tensors(const config::Option& option, const config::RunConfig& config) {
  const std::string_view family = word_of(*config::find_option("model.family"), config);
  if (option.key == "data.seq_len") return family == "gpt";
  return option.key == "optimizer.name" || option.key == "optimizer.momentum" ||
         is_read_by_model(option, family);
}

/// Momentum is kept in a tensor, whatever its size, unless it is 0.
bool is_same(const config::Option& option, const json& stored, const json& present) {
  if (option.key != "optimizer.momentum") return stored == present;
  return (stored == 0) == (present == 0);
}

/// The manifest of the checkpoint that `job` will try first; damage is for the ranks to report.
std::optional<checkpoint::Manifest> first_manifest(const fs::path& folder) {
  try {
    return checkpoint::read_manifest(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
}

void check_checkpoint(const planner::Job& job, std::vector<Problem>& problems) {
  if (job.resume == "none" || (job.resume == "auto" && job.run_dir.empty())) return;
  const std::optional<fs::path> folder = job.resume == "auto"
                                             ? checkpoint::newest_complete(checkpoints_dir(job))
                                             : std::optional(named_checkpoint(job));
  const auto manifest = folder ? first_manifest(*folder) : std::nullopt;
  if (!manifest) return;
  append(problems, model_changes(job.config, manifest->config_json, folder->string()));
}

}  // namespace

fs::path checkpoints_dir(const planner::Job& job) {
  const std::string& dir = job.config.checkpoint.dir;
  const std::string& run_dir = job.run_dir;
  if (!dir.empty()) return dir;
  return fs::path(run_dir.empty() ? "RUN_DIR" : run_dir) / "checkpoints";
}

fs::path named_checkpoint(const planner::Job& job) {
  const fs::path tagged = checkpoints_dir(job) / job.resume;
  std::string why;
  for (const fs::path& folder : {tagged, fs::path(job.resume)}) {
    std::error_code error;
    const fs::file_status status = fs::status(folder, error);
    if (fs::is_directory(status)) {
      if (fs::exists(folder / checkpoint::kManifestName, error)) return folder;
      why = error ? error.message() : "the folder holds no " + std::string("manifest.json");
      throw UsageError({{"LS-5003", "--resume " + shown(job.resume), "not a checkpoint: " + why,
                         "name a folder step-N below RUN_DIR/checkpoints"}});
    }
    const bool missing = status.type() == fs::file_type::not_found;
    if (!missing) why = error ? error.message() : "not a folder";
  }
  throw UsageError(
      {{"LS-1001", "--resume " + shown(job.resume),
        why.empty() ? "no such folder, and no such checkpoint in " + checkpoints_dir(job).string()
                    : "cannot be used: " + why,
        "name a folder or a tag that is there; auto takes the newest one"}});
}

std::vector<Problem> model_changes(const config::RunConfig& config, const std::string& stored_json,
                                   const std::string& where) {
  const json stored = json::parse(stored_json, nullptr, /*allow_exceptions=*/false);
  const json present = json::parse(config::to_json_text(config));
  std::vector<Problem> problems;
  if (!stored.is_object()) return problems;
  const auto differs = [&](const config::Option& option) {
    const json::json_pointer place("/" + std::string(option.section()) + "/" +
                                   std::string(option.name()));
    if (!stored.contains(place) || is_same(option, stored[place], present[place])) return false;
    const std::string key(option.key);
    problems.push_back({"LS-5006", where,
                        key + " is " + present[place].dump() + ", the checkpoint has " +
                            shown(stored[place].dump()),
                        "go on with the value of the checkpoint, or train anew with --resume none "
                        "(what is there is kept)"});
    return true;
  };
  if (differs(*config::find_option("model.family"))) return problems;
  const bool other_rule = differs(*config::find_option("optimizer.name"));
  for (const config::Option& option : config::options()) {
    if (option.key == "model.family" || option.key == "optimizer.name") continue;
    if (option.key == "optimizer.momentum" && other_rule) continue;
    if (decides_tensors(option, config)) differs(option);
  }
  return problems;
}

std::vector<Problem> name_problems(const std::string& flag, const std::string& name) {
  if (is_utf8(name)) return {};
  return {{"LS-1013", flag, "is not valid UTF-8",
           "name a folder in UTF-8: files of the run hold its name as JSON"}};
}

void check_start(const planner::Job& job) {
  std::vector<Problem> problems = name_problems("--run-dir", job.run_dir);
  append(problems, name_problems("--resume", job.resume));
  if (problems.empty()) check_checkpoint(job, problems);
  if (!problems.empty()) throw UsageError(std::move(problems));
}

std::optional<engine::RunSummary> read_summary(const fs::path& run_dir) {
  try {
    return engine::summary_from_json_text(
        checkpoint::read_text_file(run_dir / "summary.json", kMaxSummaryBytes));
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::string already_done_text() {
  return "already done: nothing is left to train, nothing was written; --resume none trains anew "
         "and keeps what is there";
}

std::optional<engine::RunSummary> finished_summary(const planner::Job& job) {
  if (job.run_dir.empty() || job.resume != "auto") return std::nullopt;
  std::optional<engine::RunSummary> summary = read_summary(job.run_dir);
  if (!summary || summary->status != "done") return std::nullopt;
  if (summary->config_hash != config::config_hash(job.config)) return std::nullopt;
  return summary;
}

}  // namespace lockstep::rundir
