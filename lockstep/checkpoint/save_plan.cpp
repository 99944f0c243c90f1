#include "lockstep/checkpoint/save_plan.h"

#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/dtype.h"
#include "lockstep/checkpoint/format/share_out.h"
#include "lockstep/checkpoint/gather_texts.h"

namespace lockstep::checkpoint {
namespace {

using engine::StateEntry;
using engine::StateKind;
using engine::TrainState;
using nlohmann::json;

const char* kind_name(StateKind kind) {
  switch (kind) {
    case StateKind::parameter:
      return "parameter";
    case StateKind::buffer:
      return "buffer";
    case StateKind::optimizer:
      return "optimizer";
  }
  return "";
}

/// What a rank holds: name, kind, dtype, shape of the whole, aliases, offset and shape of its box.
std::string text_of(const TrainState& state) {
  json entries = json::array();
  for (const StateEntry& entry : state.entries) {
    entries.push_back({entry.name, kind_name(entry.kind), dtype_name(entry.tensor.scalar_type()),
                       entry.global_shape, entry.aliases, entry.offset,
                       entry.tensor.sizes().vec()});
  }
  return entries.dump();
}

/// A tensor, and who has which box of it.
struct Tensor {
  ManifestTensor described;
  std::map<std::pair<Shape, Shape>, std::vector<int>> boxes;  // offset and shape -> ranks
};

std::map<std::string, Tensor> tensors_of(const std::vector<std::string>& texts) {
  std::map<std::string, Tensor> tensors;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    for (const json& entry : json::parse(texts[rank])) {
      ManifestTensor described{entry[0], entry[1], entry[2], entry[3], entry[4], {}};
      Tensor& tensor = tensors[described.name];
      if (tensor.boxes.empty()) tensor.described = described;
      const ManifestTensor& known = tensor.described;
      LOCKSTEP_CHECK(std::tie(known.kind, known.dtype, known.shape) ==
                         std::tie(described.kind, described.dtype, described.shape),
                     "ranks disagree about " + described.name);
      tensor.boxes[{entry[5], entry[6]}].push_back(static_cast<int>(rank));
    }
  }
  return tensors;
}

std::uint64_t bytes_of(const ManifestTensor& tensor, const Shape& shape) {
  const auto bytes = tensor_bytes(tensor.dtype, shape);
  LOCKSTEP_CHECK(bytes.has_value(), tensor.name + " has no size in bytes");
  return *bytes;
}

bool contains(const StateEntry& entry, const Box& box) {
  for (std::size_t dim = 0; dim < box.shape.size(); ++dim) {
    const std::int64_t length = entry.tensor.size(static_cast<std::int64_t>(dim));
    if (box.offset[dim] < entry.offset[dim] ||
        box.offset[dim] + box.shape[dim] > entry.offset[dim] + length) {
      return false;
    }
  }
  return true;
}

/// Finds the entry that has a box.
class Entries {
 public:
  explicit Entries(const TrainState& state) : state_(state) {
    for (std::size_t i = 0; i < state.entries.size(); ++i) {
      by_name_.emplace(state.entries[i].name, i);
    }
  }

  [[nodiscard]] std::size_t with(const std::string& name, const Box& box) const {
    const auto [first, last] = by_name_.equal_range(name);
    for (auto one = first; one != last; ++one) {
      if (contains(state_.entries[one->second], box)) return one->second;
    }
    LOCKSTEP_CHECK(false, "no entry holds the part of " + name + " that this rank is to write");
    return 0;
  }

 private:
  const TrainState& state_;
  std::multimap<std::string, std::size_t> by_name_;
};

}  // namespace

SavePlan plan_save(const TrainState& state, comm::Group& group) {
  SavePlan plan;
  std::vector<HeldBox> held;
  for (auto& [name, tensor] : tensors_of(gather_texts(group, text_of(state)))) {
    std::vector<Box> boxes;
    for (auto& [place, holders] : tensor.boxes) {
      boxes.push_back({place.first, place.second});
      const std::uint64_t bytes = bytes_of(tensor.described, place.second);
      held.push_back({plan.tensors.size(), boxes.back(), bytes, holders});
      plan.bytes += bytes;
    }
    const std::string fault = why_not_covered(tensor.described.shape, boxes);
    LOCKSTEP_CHECK(fault.empty(), "the ranks' parts of " + name + ": " + fault);
    plan.tensors.push_back(std::move(tensor.described));
  }
  const Entries entries(state);
  const auto written = share_out(held, group.size());
  for (const WrittenBox& one : written.at(static_cast<std::size_t>(group.rank()))) {
    const std::string& name = plan.tensors[one.tensor].name;
    plan.own.push_back({one.tensor, entries.with(name, one.box), one.box});
  }
  return plan;
}

at::Tensor view_of(const TrainState& state, const OwnPart& part) {
  const StateEntry& entry = state.entries.at(part.entry);
  at::Tensor view = entry.tensor.detach();
  for (std::size_t dim = 0; dim < part.box.shape.size(); ++dim) {
    view = view.narrow(static_cast<std::int64_t>(dim), part.box.offset[dim] - entry.offset[dim],
                       part.box.shape[dim]);
  }
  return view;
}

}  // namespace lockstep::checkpoint
