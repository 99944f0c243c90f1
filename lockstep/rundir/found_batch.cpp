#include "lockstep/rundir/found_batch.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/sha256.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/config/parse.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/planner/batch_cuts.h"
#include "lockstep/rundir/start.h"

namespace lockstep::rundir {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMostBytes = 1U << 20;
constexpr std::size_t kNameDigits = 16;

/// The folder that run directories of this run's kind lie in.
fs::path run_root(const std::string& run_dir) {
  if (run_dir.empty()) return "runs";
  fs::path dir = fs::path(run_dir).lexically_normal();
  if (!dir.has_filename()) dir = dir.parent_path();  // it ended in a slash
  return dir.has_parent_path() ? dir.parent_path() : fs::path(".");
}

/// Everything that memory and speed of a micro-batch depend on.
std::string key_of(const config::RunConfig& config, const Host& host, int ranks) {
  const Json all = Json::parse(config::to_json_text(config));
  return Json{{"model", all["model"]},
              {"seq_len", all["data"]["seq_len"]},
              {"data_format", all["data"]["format"]},
              {"precision", all["precision"]},
              {"optimizer", all["optimizer"]["name"]},
              {"parallel", all["parallel"]},
              {"threads", all["run"]["threads"]},
              {"global_batch", all["batch"]["global_batch"]},
              {"ranks", ranks},
              {"cpu", host.cpu_model},
              {"cores", host.cores},
              {"memory_bytes", host.memory_bytes}}
      .dump();
}

/// The text of a file that may be missing or damaged.
std::optional<Json> read_json(const fs::path& file) {
  try {
    Json json = Json::parse(checkpoint::read_text_file(file, kMostBytes), nullptr, false);
    if (json.is_object()) return json;
  } catch (const Error&) {  // as if it was not there
  }
  return std::nullopt;
}

std::int64_t number_at(const Json& json, const char* place) {
  const Json::json_pointer pointer(place);
  if (!json.contains(pointer) || !json[pointer].is_number_integer()) return 0;
  return json[pointer].get<std::int64_t>();
}

bool divides(std::int64_t micro_batch, const config::BatchShape& batch) {
  return micro_batch >= 1 && batch.global_batch / batch.data_ranks % micro_batch == 0;
}

/// The micro-batch of the run that `job` goes on with.
std::optional<std::int64_t> of_resumed_run(const planner::Job& job) {
  if (job.resume == "none" || (job.resume == "auto" && job.run_dir.empty())) return std::nullopt;
  const auto folder = job.resume == "auto" ? checkpoint::newest_complete(checkpoints_dir(job))
                                           : std::optional(named_checkpoint(job));
  if (!folder) return std::nullopt;
  std::optional<Json> config;
  if (job.resume == "auto") config = read_json(fs::path(job.run_dir) / "config.json");
  if (!config) {
    try {
      config = Json::parse(checkpoint::read_manifest(*folder).config_json, nullptr, false);
    } catch (const Error&) {  // damage is for the ranks to report
      return std::nullopt;
    }
  }
  const std::int64_t micro_batch = number_at(*config, "/batch/micro_batch");
  const bool same_batch = number_at(*config, "/batch/global_batch") == job.plan.batch.global_batch;
  if (!same_batch || !divides(micro_batch, job.plan.batch)) return std::nullopt;
  return micro_batch;
}

/// What an earlier run found, where it still fits.
std::optional<FoundBatch> recall(const planner::BatchSearch& search,
                                 const config::BatchShape& batch) {
  const std::optional<Json> json = read_json(search.memory_file);
  if (!json || !json->contains("key") || (*json)["key"] != Json::parse(search.memory_key)) {
    return std::nullopt;
  }
  FoundBatch found{number_at(*json, "/micro_batch"), 0, number_at(*json, "/needed_bytes")};
  if (json->contains("samples_per_s") && (*json)["samples_per_s"].is_number()) {
    found.samples_per_s = (*json)["samples_per_s"].get<double>();
  }
  const bool fits =
      search.memory_limit_bytes == 0 || found.needed_bytes <= search.memory_limit_bytes;
  if (!fits || !divides(found.micro_batch, batch)) return std::nullopt;
  return found;
}

std::string cut_text(const config::BatchShape& batch) {
  return "micro_batch " + format_count(batch.micro_batch) + " x accumulation " +
         format_count(batch.accumulation);
}

std::string why_predicted(const planner::BatchCuts& cuts) {
  const parallel::ParallelPlan& plan = cuts.cuts.front();
  const std::string limit = format_bytes(cuts.memory_limit_bytes) + " a rank";
  std::string text = cut_text(plan.batch) + ": ";
  if (cuts.memory_limit_bytes == 0) return text + "the memory of this machine is not known";
  if (plan.memory.total() > cuts.memory_limit_bytes) {
    return text + "not even that is predicted to fit into " + limit;
  }
  text += "predicted to take " + format_bytes(plan.memory.total()) + " of " + limit;
  if (!cuts.too_large) return text;
  return text + "; " + format_count(cuts.too_large->batch.micro_batch) + " would take " +
         format_bytes(cuts.too_large->memory.total());
}

std::string why_recalled(const FoundBatch& found, const std::string& file) {
  std::string text = "as an earlier run found it";
  if (found.samples_per_s > 0) text += ", at " + format_short(found.samples_per_s) + " samples/s";
  return text + " (" + file + ")";
}

}  // namespace

void settle_micro_batch(planner::Job& job, const Host& host, std::int64_t data_bytes) {
  if (!job.config.batch.finds_micro_batch) return;
  const int ranks = job.plan.batch.data_ranks;
  planner::BatchSearch search;
  search.memory_limit_bytes = planner::memory_of_rank(host, ranks);
  search.memory_key = key_of(job.config, host, ranks);
  search.memory_file =
      run_root(job.run_dir) / ".lockstep" /
      ("micro-batch-" + sha256_hex(search.memory_key).substr(0, kNameDigits) + ".json");
  const auto resumed = of_resumed_run(job);
  const auto found = resumed ? std::nullopt : recall(search, job.plan.batch);
  const std::int64_t given = resumed ? *resumed : (found ? found->micro_batch : 0);
  planner::BatchCuts cuts = planner::batch_cuts(job.config, host, ranks, data_bytes, given);
  const config::BatchShape& batch = cuts.cuts.front().batch;
  search.because = resumed ? cut_text(batch) + ", as the run has it that goes on"
                   : found ? cut_text(batch) + ", " + why_recalled(*found, search.memory_file)
                           : why_predicted(cuts);
  search.probes = given == 0 && cuts.cuts.size() > 1;
  job.plan = cuts.cuts.front();
  search.finer.assign(cuts.cuts.begin() + 1, cuts.cuts.end());
  job.search = std::move(search);
}

void remember_micro_batch(const planner::Job& job, const FoundBatch& found) {
  LOCKSTEP_CHECK(job.search.has_value(), "a run without a search remembers nothing");
  const fs::path file = job.search->memory_file;
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    throw EnvironmentFault({"LS-3051", file.parent_path().string(),
                            "the folder cannot be made: " + error.message(),
                            "the micro-batch is then searched for in each run"});
  }
  const Json json{{"micro_batch", found.micro_batch},
                  {"samples_per_s", found.samples_per_s},
                  {"needed_bytes", found.needed_bytes},
                  {"key", Json::parse(job.search->memory_key)}};
  metrics::write_whole_file(file, json.dump() + "\n");
}

}  // namespace lockstep::rundir
