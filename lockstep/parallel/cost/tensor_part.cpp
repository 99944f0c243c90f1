// Tensor parallelism (Shoeybi et al. 2019, arXiv:1909.08053) and sequence parallelism beside it
// (Korthikanti et al. 2022, arXiv:2205.05198).
#include <string>

#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::parallel {
namespace {

void check_architecture_sizes(const Layout& layout, const model::Architecture& architecture,
                              std::vector<Problem>& problems) {
  const std::int64_t tensor = layout.tensor;
  require_divides("--tensor", tensor, "heads", architecture.heads, problems);
  if (architecture.kv_heads != architecture.heads) {
    require_divides("--tensor", tensor, "heads of keys and values (kv_heads)",
                    architecture.kv_heads, problems);
  }
  require_divides("--tensor", tensor, "feed-forward columns", architecture.feed_forward, problems);
  if (architecture.experts.experts > 0) {
    require_divides("--tensor", tensor, "columns of an expert", architecture.experts.width,
                    problems);
  }
}

/// The first parameter that has to be split and cannot; models with heads are checked by those.
void check_parameters(const Layout& layout, const model::ModelStats& model, bool by_heads,
                      std::vector<Problem>& problems) {
  bool any = false;
  for (const model::BlockStats& block : model.blocks) {
    for (const model::ParameterStats& parameter : block.parameters) {
      if (parameter.split == model::Split::none) continue;
      any = true;
      if (by_heads || parameter.split != model::Split::column) continue;
      const std::int64_t rows = parameter.shape.front();
      if (rows % layout.tensor == 0) continue;
      require_divides("--tensor", layout.tensor, "rows of " + parameter.name, rows, problems);
      return;
    }
  }
  if (any) return;
  problems.push_back(
      {"LS-6105", "--tensor", "nothing of this model can be split", "use --tensor 1"});
}

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  const Layout& layout = q.layout;
  require_least("--tensor", layout.tensor, 1, problems);
  if (layout.sequence && layout.tensor <= 1) {
    problems.push_back({"LS-6105", "--sequence", "is shared by tensor ranks, and there is one",
                        "use --tensor 2 or more, or drop it"});
  }
  if (layout.tensor <= 1) return;
  const bool by_heads = q.architecture != nullptr && q.architecture->heads > 0;
  if (q.model != nullptr) check_parameters(layout, *q.model, by_heads, problems);
  if (q.architecture != nullptr) check_architecture_sizes(layout, *q.architecture, problems);
  if (layout.sequence && q.model != nullptr && q.model->counts_tokens) {
    require_divides("--tensor", layout.tensor, "tokens of a sample (--sequence)",
                    q.model->tokens_per_sample, problems);
  }
}

void share(const Layout& layout, Shares& shares) {
  if (layout.tensor <= 1) return;
  shares.tensor /= layout.tensor;
  if (layout.sequence) shares.sequence /= layout.tensor;
}

void add(const StageSetting& s, AddedBytes& bytes) {
  if (s.layout().tensor > 1) bytes.communication += s.stack().group_bytes;
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  if (s.layout.tensor <= 1 || s.layout.sequence) return;
  const bool norms = has_operator(s.model, model::OperatorKind::norm);
  const bool drops = has_operator(s.model, model::OperatorKind::dropout);
  if (!norms && !drops) return;
  const char* what = norms && drops ? "norms and dropout stand"
                     : norms        ? "norms stand"
                                    : "dropout stands";
  sentences.push_back(what + std::string(" on every tensor rank whole") +
                      (s.model.counts_tokens ? " (no sequence parallelism)" : ""));
}

}  // namespace

LayoutPart tensor_part() { return {"tensor", check, share, add, assume}; }

}  // namespace lockstep::parallel
