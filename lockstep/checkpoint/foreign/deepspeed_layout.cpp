#include "lockstep/checkpoint/foreign/deepspeed_layout.h"

#include <algorithm>
#include <numeric>

#include "lockstep/base/units.h"

namespace lockstep::checkpoint {
namespace {

std::string count_text(std::uint64_t count) {
  return format_count(static_cast<std::int64_t>(count));
}

std::uint64_t sum_of(const std::vector<std::uint64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

/// Hands out runs of a vector that is stored in several places, front to back.
class Cursor {
 public:
  struct Place {
    std::uint32_t rank;
    std::uint32_t group;
    std::uint64_t elements;
  };
  explicit Cursor(std::vector<Place> places) : places_(std::move(places)) {
    for (const Place& place : places_) left_ += place.elements;
  }

  [[nodiscard]] std::uint64_t left() const { return left_; }

  /// The next `count` elements, of which the first `wanted` are put behind `slices`.
  /// \pre wanted <= count <= left().
  void take(std::uint64_t count, std::uint64_t wanted, FlatSlices& slices) {
    left_ -= count;
    while (count > 0) {
      const Place& place = places_[at_];
      const std::uint64_t part = std::min(count, place.elements - begin_);
      const std::uint64_t kept = std::min(part, wanted);
      if (kept > 0) slices.push_back({place.rank, place.group, begin_, kept});
      begin_ += part;
      count -= part;
      wanted -= kept;
      if (begin_ == place.elements) {
        ++at_;
        begin_ = 0;
      }
    }
  }

 private:
  std::vector<Place> places_;
  std::size_t at_ = 0;
  std::uint64_t begin_ = 0;  // in places_[at_]
  std::uint64_t left_ = 0;
};

std::string too_short(const FlatParameter& parameter, std::uint64_t left) {
  return "\"" + parameter.name + "\" has " + count_text(parameter.elements) +
         " elements, and only " + count_text(left) + " are left for it";
}

/// Partition `group` of each rank.
Cursor over_ranks(const FlatSizes& sizes, std::uint32_t group) {
  std::vector<Cursor::Place> places;
  for (std::uint32_t rank = 0; rank < sizes.size(); ++rank) {
    places.push_back({rank, group, sizes[rank][group]});
  }
  return Cursor(std::move(places));
}

Cursor over_groups(const FlatSizes& sizes, std::uint32_t rank) {
  std::vector<Cursor::Place> places;
  for (std::uint32_t group = 0; group < sizes[rank].size(); ++group) {
    places.push_back({rank, group, sizes[rank][group]});
  }
  return Cursor(std::move(places));
}

}  // namespace

FlatLayout lay_out_groups(const std::vector<std::vector<FlatParameter>>& groups,
                          const FlatSizes& sizes) {
  FlatLayout layout;
  const std::uint64_t alignment = 2 * sizes.size();
  for (std::uint32_t group = 0; group < groups.size(); ++group) {
    Cursor cursor = over_ranks(sizes, group);
    const std::uint64_t available = cursor.left();
    for (const FlatParameter& parameter : groups[group]) {
      if (parameter.elements > cursor.left()) {
        layout.misfit = too_short(parameter, cursor.left());
        return layout;
      }
      cursor.take(parameter.elements, parameter.elements, layout.slices.emplace_back());
    }
    const auto aligned = [&](std::uint64_t count) { return (count + alignment - 1) / alignment; };
    if (aligned(available - cursor.left()) != aligned(available)) {
      layout.misfit = "the partitions of group " + std::to_string(group) + " have " +
                      count_text(available) + " elements, its parameters " +
                      count_text(available - cursor.left());
      return layout;
    }
  }
  return layout;
}

FlatLayout lay_out_parts(const std::vector<FlatParameter>& parameters, const FlatSizes& sizes) {
  FlatLayout layout;
  layout.slices.resize(parameters.size());
  const std::uint64_t ranks = sizes.size();
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Cursor cursor = over_groups(sizes, rank);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::uint64_t elements = parameters[i].elements;
      const std::uint64_t part = elements / ranks + (elements % ranks == 0 ? 0 : 1);
      if (part > cursor.left()) {
        layout.misfit = "rank " + std::to_string(rank) + ": " +
                        too_short({parameters[i].name, {}, part}, cursor.left());
        return layout;
      }
      const std::uint64_t before = std::min(elements, part * rank);
      cursor.take(part, std::min(part, elements - before), layout.slices[i]);
    }
    if (cursor.left() > 0) {
      layout.misfit = "rank " + std::to_string(rank) + ": its partitions have " +
                      count_text(sum_of(sizes[rank])) + " elements, " + count_text(cursor.left()) +
                      " more than its parts of parameters";
      return layout;
    }
  }
  return layout;
}

}  // namespace lockstep::checkpoint
