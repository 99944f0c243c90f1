// Which layout trains fastest and fits: docs/planning.md, "Search". A pure function.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/parallel/cost/step_time.h"
#include "lockstep/parallel/plan/layout.h"
#include "lockstep/parallel/plan/parallel_plan.h"
#include "lockstep/planner/cluster_plan.h"
#include "lockstep/planner/goodput.h"

namespace lockstep::planner {

/// What a search has to leave as it is; unset = free.
struct FixedParts {
  bool data_ranks_alone = false;  // no tensor, pipeline, context or expert ranks
  std::optional<int> zero{};
  std::optional<parallel::Offload> offload_optimizer{};
  std::optional<parallel::Offload> offload_parameters{};
  std::optional<std::int64_t> micro_batch{};
  std::optional<std::int64_t> accumulation{};
  int secondary_shard = 0;  // of stage 3
};

struct SearchLimits {
  std::int64_t devices = 0;       // 0 = all of the machine
  std::int64_t global_batch = 0;  // samples a step, held fixed; 0 = as the job's layout has it
  double need_within_s = 0;       // for the job's tokens; 0 = not asked
  std::optional<GoodputQuestion> failures{};  // that the training loses time to meanwhile
  std::size_t keep = 8;           // ranked layouts, each with its own degrees
  FixedParts fixed{};
};

struct RankedLayout {
  parallel::Layout layout;
  parallel::MemoryPlan memory;
  parallel::TimePrediction time;
  std::int64_t host_bytes = 0;  // of one device, in its host's memory, whose size is not known
  std::int64_t nvme_bytes = 0;  // and on its disk
  std::string flags;            // of `lockstep plan`: "--data 16 --tensor 8 ..."
  std::string why;              // a sentence
};

enum class Rejection : std::uint8_t {
  impossible,  // divides nothing
  too_large,
  not_better,  // slower, or as fast with more to switch on
};

/// A kind of layouts that are not ranked.
struct RejectedLayouts {
  std::string what;     // "tensor 16", "zero 3"
  std::string because;  // a sentence with numbers
  Rejection kind = Rejection::impossible;
};

struct DevicesWithin {
  std::int64_t devices = 0;  // the fewest that are quick enough; 0 = no number of them
  double train_s = 0;        // with them, else the shortest time there is
  std::string sentence;
};

struct SearchResult {
  std::vector<RankedLayout> ranked;  // best first; empty = nothing fits
  std::vector<RejectedLayouts> rejected;
  std::int64_t considered = 0;                 // layouts whose time or memory was looked at
  std::optional<parallel::Layout> smallest{};  // takes least memory; where nothing fits
  std::optional<DevicesWithin> within{};
};

/// Of the job's layout, flash attention stays as it is, and the batch where limits have none.
/// \pre the job has a machine.
[[nodiscard]] SearchResult search_layouts(const ClusterJob& job, const SearchLimits& limits);

}  // namespace lockstep::planner
