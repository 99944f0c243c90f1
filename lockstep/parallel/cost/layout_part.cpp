#include "lockstep/parallel/cost/layout_part.h"

namespace lockstep::parallel {

std::span<const LayoutPart> layout_parts() {
  static const std::vector<LayoutPart> parts{data_part(),      zero_part(),   tensor_part(),
                                             pipeline_part(),  expert_part(), context_part(),
                                             recompute_part(), offload_part()};
  return parts;
}

Shares shares_of(const Layout& layout) {
  Shares shares;
  for (const LayoutPart& part : layout_parts()) {
    if (part.share != nullptr) part.share(layout, shares);
  }
  return shares;
}

}  // namespace lockstep::parallel
