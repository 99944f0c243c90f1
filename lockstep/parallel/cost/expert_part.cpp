// Expert parallelism: data ranks share the experts and send tokens to each other (Lepikhin et al.
// 2020, arXiv:2006.16668).
#include <string>

#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::parallel {
namespace {

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  const Layout& layout = q.layout;
  require_least("--expert", layout.expert, 1, problems);
  if (layout.expert <= 1) return;
  require_divides("--expert", layout.expert, "data x context ranks", layout.replicas(), problems);
  if (q.architecture == nullptr) return;
  if (q.architecture->experts.experts == 0) {
    problems.push_back({"LS-6105", "--expert", "the model has no experts", "use --expert 1"});
    return;
  }
  require_divides("--expert", layout.expert, "experts", q.architecture->experts.experts, problems);
}

void add(const StageSetting& s, AddedBytes& bytes) {
  if (s.layout().expert > 1) bytes.communication += s.stack().group_bytes;
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  if (s.layout.expert > 1) sentences.emplace_back("every expert gets as many tokens as any other");
}

}  // namespace

LayoutPart expert_part() { return {"expert", check, nullptr, add, assume}; }

}  // namespace lockstep::parallel
