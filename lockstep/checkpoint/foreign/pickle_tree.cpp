#include "lockstep/checkpoint/foreign/pickle_tree.h"

#include <algorithm>

namespace lockstep::checkpoint {

const PickleValue* PickleShape::child(const PickleValue& value, std::size_t index) {
  if (index < value.items_.size()) return value.items_[index];
  index -= value.items_.size();
  if (value.args_ != nullptr && index-- == 0) return value.args_;
  return value.state_ != nullptr && index == 0 ? value.state_ : nullptr;
}

/// All below is measured: adds it to the value above.
void PickleShape::close(const PickleValue& value) {
  Measure& measure = measures_[value.index_];
  measure.state = State::done;
  path_.pop_back();
  if (path_.empty()) return;
  Measure& above = measures_[path_.back().value->index_];
  above.height = std::max(above.height, measure.height + 1);
  above.visits += measure.visits;  // each at most max_visits_, so the sum does not overflow
}

std::optional<std::string> PickleShape::step() {
  Frame& top = path_.back();
  const PickleValue* next = child(*top.value, top.next_child++);
  if (next == nullptr) {
    close(*top.value);
  } else if (const Measure& known = measures_[next->index_]; known.state == State::open) {
    return std::string(to_text(next->kind())) + " holds itself";
  } else {
    path_.push_back({next, 0});
    if (known.state == State::done) {
      close(*next);
    } else {
      measures_[next->index_].state = State::open;
    }
  }
  if (path_.empty()) return std::nullopt;
  const Measure& top_measure = measures_[path_.back().value->index_];
  if (path_.size() + static_cast<std::size_t>(top_measure.height) > kMaxPickleDepth) {
    return "values nested deeper than " + std::to_string(kMaxPickleDepth);
  }
  if (top_measure.visits > max_visits_) return "values that repeat each other without end";
  return std::nullopt;
}

std::optional<std::string> PickleShape::fault(const PickleValue& root) {
  path_.push_back({&root, 0});
  measures_[root.index_].state = State::open;
  while (!path_.empty()) {
    if (auto fault = step()) return fault;
  }
  return std::nullopt;
}

}  // namespace lockstep::checkpoint
