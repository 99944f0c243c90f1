#include "lockstep/parallel/loss_scaling.h"

#include <algorithm>

#include "lockstep/base/units.h"

namespace lockstep::parallel {
namespace {

using Kind = NotFiniteAt::Kind;

/// Smaller = earlier in a step.
int order_of(Kind kind) {
  constexpr Kind kOrder[] = {Kind::output, Kind::loss, Kind::gradient, Kind::nowhere};
  return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), kind) - kOrder);
}

std::string name_of(const std::vector<std::string>& names, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  return i < names.size() ? names[i] : std::to_string(index);
}

std::string place_text(const NotFiniteAt& at, const PlaceNames& names) {
  if (at.kind == Kind::loss) return "the loss";
  if (at.kind == Kind::output) return "output of " + name_of(names.blocks, at.index);
  return "gradient of " + name_of(names.parameters, at.index);
}

}  // namespace

std::optional<NotFinite> first_not_finite(const std::vector<NotFiniteAt>& by_rank,
                                          const PlaceNames& names) {
  const auto first = std::min_element(by_rank.begin(), by_rank.end(),
                                      [](const NotFiniteAt& a, const NotFiniteAt& b) {
                                        return order_of(a.kind) < order_of(b.kind);
                                      });
  if (first == by_rank.end() || first->kind == Kind::nowhere) return std::nullopt;
  return NotFinite{static_cast<int>(first - by_rank.begin()), place_text(*first, names)};
}

std::string to_text(const NotFinite& first) {
  if (first.rank == NotFinite::kNoRank) return "first in " + first.where;
  return "first on rank " + std::to_string(first.rank) + ": " + first.where;
}

Error sums_leave_fp16(const std::string& where, const NotFinite& first) {
  return {Exit::failed,
          {{"LS-7102", where,
            counted(optim::kMaxSkippedSteps, "step") +
                " in a row had gradients beyond the range of fp16, in which they travel; " +
                to_text(first) + "; parameters are unchanged",
            "use precision.reduce = \"bf16\" or \"fp32\", or lower optimizer.lr"}}};
}

Error scale_does_not_help(const std::string& where, const optim::LossScale& scale,
                          const std::optional<NotFinite>& first) {
  const std::string now = format_shortest(scale.state().scale);
  const std::string story = scale.is_dynamic()
                                ? "the loss scale fell to " + now + " and did not help"
                                : "the loss scale is fixed at " + now;
  const std::string what = counted(optim::kMaxSkippedSteps, "step") +
                           " in a row were not finite in fp16; " + story +
                           (first ? "; " + to_text(*first) : "") + "; parameters are unchanged";
  return {Exit::failed,
          {{"LS-7104", where, what,
            "what is not finite at any loss scale is too large for fp16 itself: look at that block "
            "and its data, lower optimizer.lr, or use precision.compute = \"bf16\""}}};
}

}  // namespace lockstep::parallel
