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
  if (layout.keeps_gathered && (layout.zero < 2 || layout.pipeline < 2)) {
    const std::string missing = layout.pipeline < 2 ? "--pipeline 2 or more" : "--zero 2 or 3";
    problems.push_back({"LS-6105", "--keep-gathered",
                        "is of what --zero 2 or 3 share in a pipeline",
                        "use " + missing + ", or drop it"});
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

/// Elements of a stage's largest layer and of all its blocks that are none, when gathered.
struct Gathered {
  double layer = 0;
  double ends = 0;
  double all = 0;
  double small = 0;  // of parameters that the stack leaves whole
};

void add(const StageSetting& s, const model::BlockStats& block, Gathered& sum) {
  double elements = 0;
  for (const model::ParameterStats& parameter : block.parameters) {
    if (parameter.is_table) continue;  // nobody gathers it
    const double own = elements_on_device(parameter, s.layout());
    elements += own;
    if (own <= s.stack().persistent_elements) sum.small += own;
  }
  if (block.is_layer) sum.layer = std::max(sum.layer, elements);
  if (!block.is_layer) sum.ends += elements;
  sum.all += elements;
}

Gathered gathered(const StageSetting& s) {
  Gathered sum;
  const model::ModelStats& model = s.activations.model;
  const std::vector<Piece> pieces = pieces_of(model, s.layout());
  const auto stages = static_cast<std::size_t>(std::max(1, s.layout().pipeline));
  for (auto i = static_cast<std::size_t>(s.stage); i < pieces.size(); i += stages) {
    for (std::size_t block = pieces[i].first; block < pieces[i].end; ++block) {
      add(s, model.blocks[block], sum);
    }
  }
  return sum;
}

/// One layer's gradients, or a bucket, wait to be reduced. Stage 3 gathers two layers and the ends,
/// which stay from forward to backward; or as much as the stack gathers at once. Where they stay
/// gathered, all of them are there beside the shares.
void add(const StageSetting& s, AddedBytes& bytes) {
  const Layout& layout = s.layout();
  if (layout.zero < 2 || s.stack().activations_alone) return;
  if (layout.keeps_gathered) {
    if (layout.zero == 3) bytes.buffers += s.parameters.count() * s.recipe().compute;
    return;
  }
  const Gathered sizes = gathered(s);
  const double gradients = std::max(sizes.layer * s.recipe().reduce, s.stack().bucket_bytes);
  bytes.buffers += std::min(gradients, sizes.all * s.recipe().reduce);
  if (layout.zero < 3) return;
  const double wanted = s.stack().gathered_elements > 0
                            ? std::max(s.stack().gathered_elements, sizes.layer)
                            : kPrefetched * sizes.layer + sizes.ends;
  bytes.buffers += std::min(wanted, sizes.all) * s.recipe().compute;
  const std::int64_t ranks = layout.shard > 0 ? layout.shard : layout.replicas();
  const double others = 1 - 1 / static_cast<double>(std::max<std::int64_t>(1, ranks));
  bytes.buffers += sizes.small * others * s.recipe().weights;
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  const Layout& layout = s.layout;
  if (layout.zero == 0) return;
  const std::int64_t ranks = layout.shard > 0 ? layout.shard : layout.replicas();
  static constexpr const char* kShared[] = {"", "optimizer", "optimizer and gradients",
                                            "optimizer, gradients and parameters"};
  sentences.push_back(std::string(kShared[layout.zero]) + " shared by " + counted(ranks, "rank") +
                      " (ZeRO stage " + std::to_string(layout.zero) + ", arXiv:1910.02054)");
  if (layout.pipeline > 1 && layout.zero >= 2) {
    sentences.emplace_back(
        layout.keeps_gathered
            ? "weights stay gathered and gradients whole until the last micro-batch, as "
              "torchtitan's fsdp_reshard_after_forward \"default\" has it beside a pipeline"
            : "each micro-batch reduces gradients and, with stage 3, gathers weights again, as "
              "torchtitan's fsdp_reshard_after_forward \"always\"; --keep-gathered: once a step");
  }
  if (layout.gathers_often() && s.stack.gathered_elements == 0) {
    const bool looks_up = has_operator(s.model, model::OperatorKind::embedding);
    sentences.emplace_back(
        !has_layers(s.model) ? "all parameters are gathered for the whole step"
        : looks_up           ? "two layers are gathered at once, embedding and head all the time"
                   : "two layers are gathered at once, what stands before and behind them all the "
                     "time");
  }
}

}  // namespace

LayoutPart zero_part() { return {"zero", check, nullptr, add, assume}; }

}  // namespace lockstep::parallel
