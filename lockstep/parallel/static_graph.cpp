#include "lockstep/parallel/static_graph.h"

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::parallel {

void StaticGraph::note_unexpected(std::size_t parameter) {
  if (unexpected_ == 0) unexpected_ = static_cast<std::int64_t>(parameter) + 1;
}

float StaticGraph::breach(const std::vector<bool>& here, bool ran) const {
  if (!settled_) return 0;
  if (unexpected_ > 0) return static_cast<float>(unexpected_);
  for (std::size_t p = 0; ran && p < here.size(); ++p) {
    if (used_here_[p] && !here[p]) return -static_cast<float>(p + 1);
  }
  return 0;
}

bool StaticGraph::end_step(std::span<const float> counts, const std::vector<bool>& here,
                           bool all_ran) {
  if (!promised_ || settled_ || !all_ran) return false;
  for (std::size_t p = 0; p < used_.size(); ++p) used_[p] = counts[p] > 0;
  used_here_ = here;
  settled_ = true;
  return true;
}

void require_static_graph(std::span<const float> breaches, const std::vector<std::string>& names) {
  std::vector<Problem> problems;
  for (std::size_t rank = 0; rank < breaches.size(); ++rank) {
    if (breaches[rank] == 0) continue;
    const auto parameter = static_cast<std::size_t>(std::lround(std::abs(breaches[rank]))) - 1;
    const std::string by = "on rank " + std::to_string(rank);
    const std::string what =
        breaches[rank] > 0 ? "got a gradient " + by + ", though it was unused in the first step"
                           : "got no gradient " + by + ", though it did in the first step";
    problems.push_back({"LS-7005", names.at(parameter), what,
                        "set parallel.static_graph = false, or let every step use the same "
                        "parameters"});
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
}

}  // namespace lockstep::parallel
