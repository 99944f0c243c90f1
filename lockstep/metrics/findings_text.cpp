#include "lockstep/metrics/findings_text.h"

#include "lockstep/base/units.h"

namespace lockstep::metrics {

std::string straggler_text(const engine::Straggler& straggler, std::size_t ranks,
                           const std::string& host) {
  const bool is_pair = ranks == 2;
  const std::string others =
      is_pair ? "rank " + std::to_string(1 - straggler.rank) : std::string("the others");
  return "rank " + std::to_string(straggler.rank) + (host.empty() ? "" : " (host " + host + ")") +
         " computes " + format_percent(straggler.share(), 0) + " longer than " + others +
         ", mostly in " + straggler.phase + ": " + others + (is_pair ? " waits " : " wait ") +
         format_duration(straggler.others_wait_s) + " a step for it";
}

std::string gradient_check_text(const engine::GradientCheckReport& check) {
  std::string text = "worst relative difference " + format_number(check.worst_relative, 2) + " (" +
                     check.parameter + ") to the ";
  text += check.parts == 1 ? "undivided batch on rank 0"
                           : "batch in " + std::to_string(check.parts) + " parts on rank 0, for " +
                                 check.cut_for;
  if (check.micro_batches_relative) {
    text += ", " + format_number(*check.micro_batches_relative, 2) + " to its micro-batches";
  }
  if (check.passed) return text;
  const bool is_coupled =
      check.micro_batches_relative && *check.micro_batches_relative <= check.tolerance;
  return text + (is_coupled
                     ? ": do samples of a batch see each other?"
                     : ": more than rounding explains (" + format_number(check.tolerance, 2) + ")");
}

}  // namespace lockstep::metrics
