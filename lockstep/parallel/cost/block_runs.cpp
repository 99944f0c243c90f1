#include "lockstep/parallel/cost/block_runs.h"

#include <algorithm>
#include <tuple>

namespace lockstep::parallel {
namespace {

using model::BlockStats;
using model::OperatorStats;

auto size_of(const OperatorStats& op) {
  return std::tuple(op.kind, op.m, op.n, op.k, op.times, op.share, op.splits_inner, op.causal,
                    op.forward_flops, op.moved_elements, op.weight_elements, op.kept.size());
}

bool alike(const BlockRun& run, const BlockRun& next) {
  const BlockStats& a = *run.block;
  const BlockStats& b = *next.block;
  return a.is_layer == b.is_layer && a.input_elements == b.input_elements &&
         run.whole == next.whole && run.split == next.split && run.experts == next.experts &&
         run.tables == next.tables &&
         std::equal(a.operators.begin(), a.operators.end(), b.operators.begin(), b.operators.end(),
                    [](const auto& x, const auto& y) { return size_of(x) == size_of(y); });
}

BlockRun one(const BlockStats& block) {
  BlockRun run{&block, 1};
  for (const model::ParameterStats& parameter : block.parameters) {
    const auto count = static_cast<double>(parameter.count());
    if (parameter.is_table) {
      run.tables += count;
    } else if (parameter.of_experts) {
      run.experts += count;
    } else {
      (parameter.split == model::Split::none ? run.whole : run.split) += count;
    }
  }
  return run;
}

}  // namespace

std::vector<BlockRun> block_runs(const model::ModelStats& model) {
  std::vector<BlockRun> runs;
  for (const BlockStats& block : model.blocks) {
    const BlockRun next = one(block);
    if (!runs.empty() && alike(runs.back(), next)) {
      ++runs.back().count;
    } else {
      runs.push_back(next);
    }
  }
  return runs;
}

}  // namespace lockstep::parallel
