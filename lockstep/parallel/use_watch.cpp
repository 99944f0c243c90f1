#include "lockstep/parallel/use_watch.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <utility>

#include "lockstep/comm/records/purpose.h"

namespace lockstep::parallel {

UseWatch::UseWatch(std::vector<std::string> names)
    : names_(std::move(names)), ever_(names_.size(), false), in_part_(names_.size(), false) {}

void UseWatch::step(comm::Group& group, const StepUse& use) {
  if (use.micro_batches == 0) return;
  ++steps_;
  const auto all = static_cast<float>(use.micro_batches);
  bool is_new = false;
  for (std::size_t p = 0; p < names_.size(); ++p) {
    if (use.counts[p] >= all) {  // the usual case
      if (!ever_[p]) ever_[p] = true;
      continue;
    }
    if (use.counts[p] == 0) continue;
    ever_[p] = true;
    is_new = is_new || !in_part_[p];
  }
  unread_ = unread_ || steps_ == 1;
  if (!is_new || group.size() == 1 || steps_ < next_look_) return;
  next_look_ = 2 * steps_;
  look(group, use);
}

/// Each rank tells for every parameter whether it used it, and behind them whether it had samples.
void UseWatch::look(comm::Group& group, const StepUse& use) {
  const auto columns = static_cast<std::int64_t>(names_.size()) + 1;
  const at::Tensor mine = at::zeros({columns}, at::kByte);
  auto* mark = mine.mutable_data_ptr<std::uint8_t>();
  for (std::size_t p = 0; p < names_.size(); ++p) mark[p] = use.here[p] ? 1 : 0;
  mark[names_.size()] = use.ran_here ? 1 : 0;
  const at::Tensor all = at::zeros({group.size(), columns}, at::kByte);
  const comm::Purpose purpose("which rank uses which parameter");
  group.all_gather(all, mine)->wait();

  const auto has = [&](int rank, std::size_t column) {
    return all.const_data_ptr<std::uint8_t>()[rank * columns + static_cast<std::int64_t>(column)] !=
           0;
  };
  partly_.clear();
  for (std::size_t p = 0; p < names_.size(); ++p) {
    in_part_[p] = use.counts[p] > 0 && use.counts[p] < static_cast<float>(use.micro_batches);
    PartlyUsed used{names_[p], {}};
    bool by_all = true;
    for (int rank = 0; rank < group.size(); ++rank) {
      if (has(rank, p)) used.ranks.push_back(rank);
      by_all = by_all && (has(rank, p) || !has(rank, names_.size()));
    }
    if (!by_all && !used.ranks.empty()) partly_.push_back(std::move(used));
  }
  unread_ = true;
}

ParameterUse UseWatch::report() const {
  ParameterUse use;
  for (std::size_t p = 0; p < names_.size(); ++p) {
    if (steps_ > 0 && !ever_[p]) use.never.push_back(names_[p]);
  }
  use.partly = partly_;
  return use;
}

std::optional<ParameterUse> UseWatch::take_news() {
  if (!std::exchange(unread_, false)) return std::nullopt;
  ParameterUse use = report();
  bool is_news = false;
  const auto tell = [&](const std::string& name) {
    if (std::find(told_.begin(), told_.end(), name) != told_.end()) return;
    told_.push_back(name);
    is_news = true;
  };
  for (const std::string& name : use.never) tell(name);
  for (const PartlyUsed& parameter : use.partly) tell(parameter.name);
  return is_news ? std::optional(std::move(use)) : std::nullopt;
}

}  // namespace lockstep::parallel
