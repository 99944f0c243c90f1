#include "lockstep/planner/job.h"

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/config/parse.h"

namespace lockstep::planner {
namespace {

using Json = nlohmann::ordered_json;

Json search_json(const BatchSearch& search) {
  Json finer = Json::array();
  for (const auto& plan : search.finer) finer.push_back(Json::parse(parallel::to_json_text(plan)));
  return {{"finer", finer},
          {"probes", search.probes},
          {"memory_limit_bytes", search.memory_limit_bytes},
          {"memory_file", search.memory_file},
          {"memory_key", search.memory_key},
          {"because", search.because}};
}

BatchSearch search_from(const Json& json) {
  BatchSearch search;
  for (const Json& plan : json.at("finer")) {
    search.finer.push_back(parallel::plan_from_json_text(plan.dump()));
  }
  json.at("probes").get_to(search.probes);
  json.at("memory_limit_bytes").get_to(search.memory_limit_bytes);
  json.at("memory_file").get_to(search.memory_file);
  json.at("memory_key").get_to(search.memory_key);
  json.at("because").get_to(search.because);
  return search;
}

}  // namespace

std::string to_json_text(const Job& job) {
  Json json{{"run_dir", job.run_dir},
            {"resume", job.resume},
            {"allow_change", job.allow_change},
            {"config", Json::parse(config::to_json_text(job.config))},
            {"plan", Json::parse(parallel::to_json_text(job.plan))}};
  if (job.search) json["search"] = search_json(*job.search);
  return json.dump();
}

Job job_from_json_text(const std::string& json) {
  const std::string fix = "start the run again from its configuration";
  try {
    const Json document = Json::parse(json);
    Job job;
    document.at("run_dir").get_to(job.run_dir);
    document.at("resume").get_to(job.resume);
    document.at("allow_change").get_to(job.allow_change);
    job.config = config::from_json_text(document.at("config").dump());
    job.plan = parallel::plan_from_json_text(document.at("plan").dump());
    if (document.contains("search")) job.search = search_from(document.at("search"));
    return job;
  } catch (const Json::exception& error) {
    throw BadData({"LS-6011", "job", error.what(), fix});
  } catch (const UsageError& error) {
    throw BadData({"LS-6011", "job", error.problems().front().what, fix});
  }
}

}  // namespace lockstep::planner
