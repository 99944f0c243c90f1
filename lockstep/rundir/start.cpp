#include "lockstep/rundir/start.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/tools/tags.h"
#include "lockstep/config/cache_folder.h"
#include "lockstep/config/parse.h"
#include "lockstep/rundir/resume_changes.h"

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

/// The manifest of the checkpoint that `job` will try first; damage is for the ranks to report.
std::optional<checkpoint::Manifest> first_manifest(const fs::path& folder) {
  try {
    return checkpoint::read_manifest(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
}

constexpr const char* kNoManifest = "the folder holds no manifest.json";
/// Files of a tag that are hashed before a run starts; data goes by the checksums of the manifest.
constexpr std::uint64_t kHashedBytes = std::uint64_t{64} << 20;

[[noreturn]] void refuse_folder(const planner::Job& job, const std::string& why) {
  throw UsageError({{"LS-5003", "--resume " + shown(job.resume), "not a checkpoint: " + why,
                     "name a folder step-N below RUN_DIR/checkpoints"}});
}

/// Nothing where no checkpoint has that name. \throws BadData (LS-5004).
std::optional<checkpoint::Tag> find_tag(const std::string& name) {
  const std::string folder = config::tags_folder();
  if (folder.empty() || !checkpoint::is_tag_name(name)) return std::nullopt;
  try {
    return checkpoint::TagRegistry(folder).find(name);
  } catch (const UsageError&) {  // none of that name
    return std::nullopt;
  }
}

/// \throws BadData (LS-5017) when it is not what got the name.
fs::path tagged_checkpoint(const planner::Job& job, const checkpoint::Tag& tag) {
  if (std::vector<Problem> changes = verify_tag(tag, kHashedBytes); !changes.empty()) {
    throw Error(Exit::bad_data, std::move(changes));
  }
  std::error_code error;
  if (fs::exists(tag.path / checkpoint::kManifestName, error)) return tag.path;
  if (tag.format == "lockstep" || error) refuse_folder(job, error ? error.message() : kNoManifest);
  throw UsageError({{"LS-5003", "--resume " + shown(job.resume),
                     "the tag names weights (" + tag.format + "), not a state to go on from",
                     "start from them with --set model.weights=" + tag.name}});
}

void check_checkpoint(const planner::Job& job, std::vector<Problem>& problems) {
  problems = allowed_key_problems(job.allow_change);
  if (!problems.empty() || job.resume == "none") return;
  if (job.resume == "auto" && job.run_dir.empty()) return;
  const std::optional<fs::path> folder = job.resume == "auto"
                                             ? checkpoint::newest_complete(checkpoints_dir(job))
                                             : std::optional(named_checkpoint(job));
  const auto manifest = folder ? first_manifest(*folder) : std::nullopt;
  if (!manifest) return;
  append(problems,
         change_problems(changes_since(job, *manifest), job.allow_change, folder->string()));
}

}  // namespace

fs::path checkpoints_dir(const planner::Job& job) {
  const std::string& dir = job.config.checkpoint.dir;
  const std::string& run_dir = job.run_dir;
  if (!dir.empty()) return dir;
  return fs::path(run_dir.empty() ? "RUN_DIR" : run_dir) / "checkpoints";
}

fs::path named_checkpoint(const planner::Job& job) {
  std::string why;
  for (const fs::path& folder : {checkpoints_dir(job) / job.resume, fs::path(job.resume)}) {
    std::error_code error;
    const fs::file_status status = fs::status(folder, error);
    if (fs::is_directory(status)) {
      if (fs::exists(folder / checkpoint::kManifestName, error)) return folder;
      refuse_folder(job, error ? error.message() : kNoManifest);
    }
    const bool missing = status.type() == fs::file_type::not_found;
    if (!missing) why = error ? error.message() : "not a folder";
  }
  if (const auto tag = find_tag(job.resume)) return tagged_checkpoint(job, *tag);
  throw UsageError(
      {{"LS-1001", "--resume " + shown(job.resume),
        why.empty() ? "no such folder, no such checkpoint in " + checkpoints_dir(job).string() +
                          ", and no such tag"
                    : "cannot be used: " + why,
        "name a folder or a tag that is there (`lockstep ckpt list --tags`); auto takes the newest "
        "checkpoint of the run directory"}});
}

std::vector<ResumeChange> changes_since(const planner::Job& job,
                                        const checkpoint::Manifest& manifest) {
  ResumeFacts facts;
  facts.stored_ranks = data_ranks_of(manifest.layout);
  if (!job.plan.strategies.empty()) facts.present_ranks = job.plan.batch.data_ranks;
  facts.stored_data = manifest.data_hash;
  if (!facts.stored_data.empty()) facts.present_data = training_data_hash(job.config.data);
  return resume_changes(job.config, manifest.config_json, facts);
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
