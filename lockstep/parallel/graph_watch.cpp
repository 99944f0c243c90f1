#include "lockstep/parallel/graph_watch.h"

#include <algorithm>

namespace lockstep::parallel {

GraphWatch::GraphWatch(std::vector<std::string> names, bool is_static)
    : names_(std::move(names)),
      here_(names_.size(), false),
      graph_(is_static, names_.size()),
      watch_(names_) {}

void GraphWatch::begin_step() {
  std::fill(here_.begin(), here_.end(), false);
  ran_ = false;
  graph_.begin_step();
}

void GraphWatch::end_leaf(const std::vector<bool>& seen, bool ran) {
  for (std::size_t p = 0; p < here_.size(); ++p) here_[p] = here_[p] || seen[p];
  ran_ = ran_ || ran;
}

bool GraphWatch::end_step(comm::Group& group, const GraphSums& sums) {
  require_static_graph(sums.breaches, names_);
  watch_.step(group, {sums.counts, sums.micro_batches, here_, ran_});
  return graph_.end_step(sums.counts, here_, sums.all_ran);
}

}  // namespace lockstep::parallel
