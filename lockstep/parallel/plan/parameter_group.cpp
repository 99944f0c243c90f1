#include "lockstep/parallel/plan/parameter_group.h"

#include "lockstep/base/units.h"

namespace lockstep::parallel {

std::string to_text(const std::vector<ParameterGroup>& groups) {
  std::string text;
  for (const ParameterGroup& group : groups) {
    if (group.parameters == 0) continue;
    text += (text.empty() ? "" : "; ") + group.name + ": " +
            counted(group.parameters, "parameter") + " (" + counted(group.elements, "element") +
            "), weight decay " + format_shortest(group.weight_decay);
    if (group.lr_factor != 1) text += ", rate x " + format_shortest(group.lr_factor);
  }
  return text;
}

}  // namespace lockstep::parallel
