#include "lockstep/planner/pipeline_cuts.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::planner {
namespace {

/// least[j]: of the slowest of the stages so far, with the first j layers; cut[j]: layers of the
/// stages before this one.
struct Row {
  std::vector<double> least;
  std::vector<std::size_t> cut;
};

std::vector<double> sums_of(const LayerCosts& costs) {
  std::vector<double> sums{0};
  for (const double cost : costs.layers) sums.push_back(sums.back() + cost);
  return sums;
}

/// Stages before take longer the more layers they have, this one less: the best cut is where the
/// two meet, or just before.
std::size_t best_cut(const Row& before, const std::vector<double>& sums, std::size_t first,
                     std::size_t end, double extra) {
  std::size_t low = first;
  std::size_t high = end - 1;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (before.least[middle] >= sums[end] - sums[middle] + extra) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  const auto slower = [&](std::size_t cut) {
    return std::max(before.least[cut], sums[end] - sums[cut] + extra);
  };
  return low > first && slower(low - 1) <= slower(low) ? low - 1 : low;
}

Row first_row(const LayerCosts& costs, const std::vector<double>& sums, bool alone) {
  Row row;
  for (const double sum : sums)
    row.least.push_back(costs.before + sum + (alone ? costs.behind : 0));
  row.cut.assign(sums.size(), 0);
  return row;
}

}  // namespace

std::vector<std::int64_t> balanced_cuts(const LayerCosts& costs, int stages) {
  const std::vector<double> sums = sums_of(costs);
  const std::size_t layers = costs.layers.size();
  std::vector<Row> rows{first_row(costs, sums, stages == 1)};
  for (std::size_t k = 1; k < static_cast<std::size_t>(stages); ++k) {
    const double extra = k + 1 == static_cast<std::size_t>(stages) ? costs.behind : 0;
    Row row = rows.back();
    for (std::size_t end = k + 1; end <= layers; ++end) {
      const std::size_t cut = best_cut(rows.back(), sums, k, end, extra);
      row.least[end] = std::max(rows.back().least[cut], sums[end] - sums[cut] + extra);
      row.cut[end] = cut;
    }
    rows.push_back(std::move(row));
  }
  std::vector<std::int64_t> cuts(rows.size());
  std::size_t end = layers;
  for (std::size_t k = rows.size(); k-- > 0;) {
    const std::size_t cut = k == 0 ? 0 : rows[k].cut[end];
    cuts[k] = static_cast<std::int64_t>(end - cut);
    end = cut;
  }
  return cuts;
}

double slowest_stage(const LayerCosts& costs, const std::vector<std::int64_t>& cuts) {
  double slowest = 0;
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < cuts.size(); ++stage) {
    double sum = stage == 0 ? costs.before : 0;
    if (stage + 1 == cuts.size()) sum += costs.behind;
    for (std::int64_t i = 0; i < cuts[stage]; ++i) sum += costs.layers[layer++];
    slowest = std::max(slowest, sum);
  }
  return slowest;
}

}  // namespace lockstep::planner
