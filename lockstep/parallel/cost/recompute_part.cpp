// Computing again in backward what forward did not keep (Chen et al. 2016, arXiv:1604.06174):
// layers whole, or attention's scores alone (activations.h has the bytes).
#include <string>

#include "lockstep/parallel/cost/layout_part.h"

namespace lockstep::parallel {
namespace {

std::string recomputed(const ActivationSetting& s, bool attends) {
  switch (s.layout.recompute) {
    case Recompute::selective:
      if (attends) return "attention's scores are computed again in backward";
      return "nothing is computed again: selective recomputation is of a kind of layer that this "
             "model has not";
    case Recompute::full:
      if (has_layers(s.model)) {
        return "of each layer only its input is kept; it is computed again";
      }
      return "nothing is computed again: this model is no stack of layers";
    case Recompute::none:
      break;
  }
  return "backward finds all that forward computed (no recomputation)";
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  const bool attends = has_operator(s.model, model::OperatorKind::attention);
  sentences.push_back(recomputed(s, attends));
  if (attends && !s.layout.flash_attention) {
    sentences.emplace_back("attention makes its scores whole");
  }
}

}  // namespace

LayoutPart recompute_part() { return {"recompute", nullptr, nullptr, nullptr, assume}; }

}  // namespace lockstep::parallel
