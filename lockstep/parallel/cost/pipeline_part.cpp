// Pipelines: each rank has some of the layers (in_flight.h: how many micro-batches it holds).
#include <numeric>
#include <string>

#include "lockstep/parallel/cost/check_layout.h"
#include "lockstep/parallel/cost/stage_blocks.h"

namespace lockstep::parallel {
namespace {

void check_schedule(const Layout& layout, std::vector<Problem>& problems) {
  const bool interleaved = layout.schedule == PipelineSchedule::interleaved;
  if (layout.pipeline > 1 && layout.schedule == PipelineSchedule::none) {
    problems.push_back({"LS-6105", "--schedule",
                        "a pipeline of " + std::to_string(layout.pipeline) + " needs one",
                        "use --schedule 1f1b, gpipe or interleaved"});
  }
  if (layout.pipeline == 1 && layout.schedule != PipelineSchedule::none) {
    problems.push_back({"LS-6105", "--schedule", "there is no pipeline to schedule",
                        "use --pipeline 2 or more, or drop it"});
  }
  if (layout.chunks > 1 && layout.pipeline == 1) {
    problems.push_back({"LS-6105", "--chunks",
                        "chunks are of a pipeline's ranks, and there is none",
                        "use --pipeline 2 or more, or drop it"});
  } else if (layout.chunks > 1 && !interleaved) {
    problems.push_back({"LS-6105", "--chunks", "only the interleaved schedule has several",
                        "use --schedule interleaved, or --chunks 1"});
  }
  if (!interleaved || layout.pipeline == 1) return;
  if (layout.chunks == 1) {
    problems.push_back({"LS-6105", "--chunks", "interleaved with one chunk is 1f1b",
                        "use --chunks 2 or more, or --schedule 1f1b"});
  }
  if (layout.accumulation % layout.pipeline != 0) {
    const std::int64_t below = layout.accumulation / layout.pipeline * layout.pipeline;
    problems.push_back({"LS-6103", "--accumulation",
                        std::to_string(layout.accumulation) +
                            " micro-batches do not fill rounds of " +
                            std::to_string(layout.pipeline) + " (interleaved)",
                        "use " + (below > 0 ? std::to_string(below) + " or " : "") +
                            std::to_string(below + layout.pipeline)});
  }
}

void check_cuts(const Layout& layout, std::int64_t layers, std::vector<Problem>& problems) {
  const std::int64_t pieces = std::int64_t{1} * layout.pipeline * layout.chunks;
  if (static_cast<std::int64_t>(layout.cuts.size()) != pieces) {
    problems.push_back(
        {"LS-6106", "--cuts",
         std::to_string(layout.cuts.size()) + " numbers for " + std::to_string(pieces) + " pieces",
         "give " + std::to_string(pieces) + " that add up to " + std::to_string(layers)});
  }
  const auto sum = std::accumulate(layout.cuts.begin(), layout.cuts.end(), std::int64_t{0});
  if (sum != layers) {
    problems.push_back({"LS-6106", "--cuts",
                        "add up to " + std::to_string(sum) + ", but there are " +
                            std::to_string(layers) + " layers",
                        sum < layers ? "add " + std::to_string(layers - sum)
                                     : "take away " + std::to_string(sum - layers)});
  }
  for (const std::int64_t cut : layout.cuts) require_least("--cuts", cut, 0, problems);
}

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  const Layout& layout = q.layout;
  const std::size_t before = problems.size();
  require_least("--pipeline", layout.pipeline, 1, problems);
  require_least("--chunks", layout.chunks, 1, problems);
  if (problems.size() > before || layout.accumulation < 1) return;
  check_schedule(layout, problems);
  if (q.model == nullptr) return;
  const std::int64_t layers = layer_count(*q.model);
  if (layers == 0 && layout.pipeline > 1) {
    problems.push_back({"LS-6105", "--pipeline", "this model has no layers that ranks could share",
                        "use --pipeline 1"});
    return;
  }
  if (!layout.cuts.empty()) {
    check_cuts(layout, layers, problems);
  } else if (layers % layout.pipeline != 0 || layout.chunks == 1) {
    require_divides("--pipeline", layout.pipeline, "layers (or give --cuts)", layers, problems);
  } else {
    require_divides("--chunks", layout.chunks, "layers of a pipeline rank (or give --cuts)",
                    layers / layout.pipeline, problems);
  }
}

void add(const StageSetting& s, AddedBytes& bytes) {
  if (s.layout().pipeline > 1) bytes.communication += s.stack().group_bytes;
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  if (s.layout.pipeline <= 1) return;
  sentences.push_back("schedule " + std::string(to_text(s.layout.schedule)) + " of " +
                      std::to_string(s.layout.accumulation) +
                      " micro-batches; the fullest stage "
                      "is shown");
  if (tied_parameter(s.model) != nullptr) {
    sentences.emplace_back("the embedding's matrix stands on the first and the last stage");
  }
}

}  // namespace

LayoutPart pipeline_part() { return {"pipeline", check, nullptr, add, assume}; }

}  // namespace lockstep::parallel
