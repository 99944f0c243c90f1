// ZeRO and fully sharded data parallelism: states spread over data ranks (states.h has the bytes),
// weights gathered where they are used.
#include <algorithm>
#include <string>

#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/check_layout.h"
#include "lockstep/parallel/cost/stage_blocks.h"

namespace lockstep::parallel {
namespace {

constexpr double kPrefetched = 2;  // the block that computes and the next one

void check_stage(const Layout& layout, std::vector<Problem>& problems) {
  if (layout.zero < 0 || layout.zero > 3) {
    problems.push_back({"LS-6102", "--zero", "is " + std::to_string(layout.zero),
                        std::string("use ") + (layout.zero < 0 ? "0" : "3") +
                            ": 1 shares the optimizer, 2 and gradients, 3 and parameters"});
  }
  if (layout.zero >= 2 && layout.pipeline > 1) {
    problems.push_back({"LS-6105", "--zero",
                        "stage " + std::to_string(layout.zero) + " with --pipeline " +
                            std::to_string(layout.pipeline) +
                            " would reduce or gather again for every micro-batch",
                        "use --zero 1, or --pipeline 1"});
  }
}

void check_shards(const Layout& layout, std::vector<Problem>& problems) {
  require_least("--shard", layout.shard, 0, problems);
  require_least("--secondary-shard", layout.secondary_shard, 0, problems);
  if (layout.shard > 0 && layout.zero == 0) {
    problems.push_back({"LS-6105", "--shard", "without --zero nothing is shared",
                        "use --zero 1, 2 or 3, or drop it"});
  }
  if (layout.shard > 0) {
    require_divides("--shard", layout.shard, "data x context ranks", layout.replicas(), problems);
  }
  if (layout.secondary_shard > 0) {
    if (layout.zero != 3) {
      problems.push_back({"LS-6105", "--secondary-shard",
                          "a second copy of the weights is of use where the first is shared",
                          "use --zero 3, or drop it"});
    }
    require_divides("--secondary-shard", layout.secondary_shard, "data x context ranks",
                    layout.replicas(), problems);
  }
}

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  check_stage(q.layout, problems);
  check_shards(q.layout, problems);
}

/// Elements of the largest layer and of all blocks that are none, on a device when gathered.
struct Gathered {
  double layer = 0;
  double ends = 0;
  double all = 0;
};

Gathered gathered(const StageSetting& s) {
  Gathered sum;
  for (const model::BlockStats& block : s.activations.model.blocks) {
    double elements = 0;
    for (const model::ParameterStats& parameter : block.parameters) {
      elements += elements_on_device(parameter, s.layout());
    }
    if (block.is_layer) sum.layer = std::max(sum.layer, elements);
    if (!block.is_layer) sum.ends += elements;
    sum.all += elements;
  }
  return sum;
}

/// One layer's gradients, or a bucket, wait to be reduced. Stage 3 gathers two layers and the ends,
/// which stay from forward to backward; or as much as the stack gathers at once.
void add(const StageSetting& s, AddedBytes& bytes) {
  if (s.layout().zero < 2 || s.stack().activations_alone) return;
  const Gathered sizes = gathered(s);
  const double gradients = std::max(sizes.layer * s.recipe().reduce, s.stack().bucket_bytes);
  bytes.buffers += std::min(gradients, sizes.all * s.recipe().reduce);
  if (s.layout().zero < 3) return;
  const double wanted = s.stack().gathered_elements > 0
                            ? std::max(s.stack().gathered_elements, sizes.layer)
                            : kPrefetched * sizes.layer + sizes.ends;
  bytes.buffers += std::min(wanted, sizes.all) * s.recipe().compute;
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  const Layout& layout = s.layout;
  if (layout.zero == 0) return;
  const std::int64_t ranks = layout.shard > 0 ? layout.shard : layout.replicas();
  static constexpr const char* kShared[] = {"", "optimizer", "optimizer and gradients",
                                            "optimizer, gradients and parameters"};
  sentences.push_back(std::string(kShared[layout.zero]) + " shared by " + counted(ranks, "rank") +
                      " (ZeRO stage " + std::to_string(layout.zero) + ", arXiv:1910.02054)");
  if (layout.zero == 3 && s.stack.gathered_elements == 0) {
    sentences.emplace_back("two layers are gathered at once, embedding and head all the time");
  }
}

}  // namespace

LayoutPart zero_part() { return {"zero", check, nullptr, add, assume}; }

}  // namespace lockstep::parallel
