#include "lockstep/planner/job.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/config/parse.h"

namespace lockstep::planner {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string to_json_text(const Job& job) {
  const Json json{{"run_dir", job.run_dir},
                  {"resume", job.resume},
                  {"config", Json::parse(config::to_json_text(job.config))},
                  {"plan", Json::parse(parallel::to_json_text(job.plan))}};
  return json.dump();
}

Job job_from_json_text(const std::string& json) {
  const std::string fix = "start the run again from its configuration";
  try {
    const Json document = Json::parse(json);
    Job job;
    document.at("run_dir").get_to(job.run_dir);
    document.at("resume").get_to(job.resume);
    job.config = config::from_json_text(document.at("config").dump());
    job.plan = parallel::plan_from_json_text(document.at("plan").dump());
    return job;
  } catch (const Json::exception& error) {
    throw BadData({"LS-6011", "job", error.what(), fix});
  } catch (const UsageError& error) {
    throw BadData({"LS-6011", "job", error.problems().front().what, fix});
  }
}

}  // namespace lockstep::planner
