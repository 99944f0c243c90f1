// Context parallelism: ranks share the tokens of a sample and pass keys and values round (Liu et
// al. 2023, arXiv:2310.01889).
#include <string>

#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::parallel {
namespace {

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  const Layout& layout = q.layout;
  require_least("--context", layout.context, 1, problems);
  if (layout.context <= 1 || q.model == nullptr) return;
  if (!q.model->counts_tokens) {
    problems.push_back({"LS-6105", "--context", "samples of this model have no tokens to share",
                        "use --context 1"});
    return;
  }
  require_divides("--context", layout.context, "tokens of a sample", q.model->tokens_per_sample,
                  problems);
}

void share(const Layout& layout, Shares& shares) {
  if (layout.context > 1) shares.tokens /= layout.context;
}

void add(const StageSetting& s, AddedBytes& bytes) {
  if (s.layout().context > 1) bytes.communication += s.stack().group_bytes;
}

}  // namespace

LayoutPart context_part() { return {"context", check, share, add, nullptr}; }

}  // namespace lockstep::parallel
