// Embedding tables shared by rows: each rank looks up what all samples ask of its rows and sends
// the rows to the ranks of those samples (Naumov et al. 2019, arXiv:1906.00091, section 4).
#include <string>

#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::parallel {
namespace {

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  const Layout& layout = q.layout;
  require_least("--tables", layout.tables, 1, problems);
  if (layout.tables <= 1) return;
  require_divides("--tables", layout.tables, "data ranks", layout.data, problems);
  if (q.model == nullptr || table_parameters(*q.model) > 0) return;
  problems.push_back(
      {"LS-6105", "--tables", "the model has no embedding tables", "use --tables 1"});
}

/// Rows that come from other ranks and their gradients on the way back.
void add(const StageSetting& s, AddedBytes& bytes) {
  if (s.layout().tables <= 1) return;
  bytes.communication += s.stack().group_bytes;
  const auto samples = static_cast<double>(s.layout().micro_batch);
  for (const model::BlockStats& block : s.activations.model.blocks) {
    for (const model::OperatorStats& op : block.operators) {
      if (op.kind != model::OperatorKind::embedding) continue;
      bytes.buffers += 2 * op.m * op.n * samples * s.recipe().compute;
    }
  }
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  if (table_parameters(s.model) <= 0) return;
  sentences.push_back((s.layout.tables > 1 ? "rows of the embedding tables are shared by " +
                                                 counted(s.layout.tables, "rank")
                                           : std::string("each rank has all embedding tables")) +
                      ": fp32, changed in backward by row-wise Adagrad (4 B a row), without "
                      "gradients of their own (TorchRec)");
  if (s.layout.tables < s.layout.data) {
    sentences.emplace_back("what ranks with the same rows tell each other is not counted");
  }
}

}  // namespace

LayoutPart tables_part() { return {"tables", check, nullptr, add, assume}; }

}  // namespace lockstep::parallel
