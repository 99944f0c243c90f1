// Computing again in backward what forward did not keep (Chen et al. 2016, arXiv:1604.06174):
// layers whole, or attention's scores alone (activations.h has the bytes).
#include <string>

#include "lockstep/parallel/cost/layout_part.h"

namespace lockstep::parallel {
namespace {

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  switch (s.layout.recompute) {
    case Recompute::none:
      sentences.emplace_back("backward finds all that forward computed (no recomputation)");
      break;
    case Recompute::selective:
      sentences.emplace_back("attention's scores are computed again in backward");
      break;
    case Recompute::full:
      sentences.emplace_back("of each layer only its input is kept; it is computed again");
      break;
  }
  sentences.emplace_back(s.layout.flash_attention ? "flash attention keeps no scores"
                                                  : "attention makes its scores whole");
}

}  // namespace

LayoutPart recompute_part() { return {"recompute", nullptr, nullptr, nullptr, assume}; }

}  // namespace lockstep::parallel
