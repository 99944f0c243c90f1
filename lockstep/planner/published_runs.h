// Training runs that others measured and published, as values that can be planned:
// tests/validation/published_runs.csv. Inputs are its columns from model to recompute, and the note
// where it says which network a host had; what was measured never reaches the plan.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/model/stats/architecture.h"
#include "lockstep/parallel/cost/software_stack.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/topology/machine.h"

namespace lockstep::planner {

/// One row by column name; empty = not published.
using PublishedRow = std::map<std::string, std::string>;

/// Throws BadData with the row that has more or fewer fields than the heading.
[[nodiscard]] std::vector<PublishedRow> read_published_rows(std::string_view csv);

struct PublishedRun {
  std::string id;
  std::string source;
  std::string device;
  model::Architecture architecture;
  std::int64_t sequence = 0;
  parallel::Layout layout;
  const parallel::PrecisionRecipe* recipe = nullptr;
  const parallel::SoftwareStack* stack = nullptr;  // null: of formulas, nothing ran
  Machine machine;
  std::vector<std::string> assumptions;  // what the row does not say
};

/// The configuration alone. Throws BadData where a column cannot be read or names what no table
/// has.
[[nodiscard]] PublishedRun plan_of(const PublishedRow& row);

/// Seconds a step as measured, from iter_s, else tok_s_dev, else tflops_dev by the convention of
/// its source: papers about Megatron count 96 B s l h^2 (1 + s / 6h + V / 16lh) with full
/// recomputation and 72 B s l h^2 (1 + s / 6h + V / 12lh) without (DeepSpeed on Fugaku: V / 16lh
/// too). 0 where no time was published.
[[nodiscard]] double measured_step_s(const PublishedRow& row, const PublishedRun& run);

/// The row itself says that nobody could have known: at the limit of memory.
[[nodiscard]] bool is_unpredictable(const PublishedRow& row);

}  // namespace lockstep::planner
