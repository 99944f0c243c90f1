// Parts that a step's report and a run's summary share, in JSON. Readers throw BadData.
#pragma once
#include <vector>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/json_line.h"
#include "lockstep/engine/values/step_report.h"
#include "lockstep/engine/values/straggler.h"

namespace lockstep::engine {

/// Times of all ranks, one array with a number for each: {"step_s": [...], "data_s": [...], ...,
/// "compute_s": [...], "wait_s": [...]}. The last two say what each rank did by itself and how long
/// it waited for others.
void put_columns(JsonLine& line, const std::vector<PhaseTimes>& ranks);
[[nodiscard]] nlohmann::ordered_json to_columns(const std::vector<PhaseTimes>& ranks);
[[nodiscard]] std::vector<PhaseTimes> from_columns(const JsonFields& columns);

/// {"worst_relative", "parameter", "tolerance", "passed", "parts", "cut_for", "check_s"}, and
/// "micro_batches_relative" where it was looked at.
[[nodiscard]] nlohmann::ordered_json to_json(const GradientCheckReport& check);
[[nodiscard]] GradientCheckReport gradient_check_from(const JsonFields& fields);

/// {"never": [names], "partly": [{"name", "ranks"}]}
[[nodiscard]] nlohmann::ordered_json to_json(const parallel::ParameterUse& use);
[[nodiscard]] parallel::ParameterUse parameter_use_from(const JsonFields& fields);

/// {"rank", "phase", "slower_s", "share", "others_wait_s"}
[[nodiscard]] nlohmann::ordered_json to_json(const Straggler& straggler);

}  // namespace lockstep::engine
