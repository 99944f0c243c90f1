#include "lockstep/checkpoint/format/share_out.h"

#include <algorithm>
#include <map>
#include <utility>

namespace lockstep::checkpoint {
namespace {

/// Boxes of the same holders, end to end.
struct Stretch {
  std::uint64_t bytes = 0;   // of all of them
  std::uint64_t passed = 0;  // of those dealt with
};

/// The first byte that is no more of holder `place` of `count`.
std::uint64_t end_of(std::uint64_t bytes, std::size_t place, std::size_t count) {
  const auto part = static_cast<unsigned __int128>(bytes) * (place + 1) / count;
  return static_cast<std::uint64_t>(part);
}

/// Rows of `box` that end nearest to `byte` of it.
std::int64_t rows_up_to(const HeldBox& held, std::uint64_t byte) {
  const auto rows = static_cast<std::uint64_t>(held.box.shape.front());
  const auto scaled = static_cast<unsigned __int128>(byte) * rows * 2 + held.bytes;
  return static_cast<std::int64_t>(
      std::min<unsigned __int128>(scaled / (std::uint64_t{2} * held.bytes), rows));
}

bool may_be_cut(const HeldBox& held) {
  return held.bytes >= kLeastCutBytes && !held.box.shape.empty() && held.box.shape.front() > 1;
}

Box rows_of(const Box& box, std::int64_t from, std::int64_t to) {
  Box rows = box;
  rows.offset.front() += from;
  rows.shape.front() = to - from;
  return rows;
}

/// To the holder whose stretch has the middle of it.
std::size_t place_of_middle(const HeldBox& held, const Stretch& stretch) {
  const std::uint64_t middle = stretch.passed + held.bytes / 2;
  std::size_t place = 0;
  while (place + 1 < held.holders.size() &&
         middle >= end_of(stretch.bytes, place, held.holders.size())) {
    ++place;
  }
  return place;
}

void deal(const HeldBox& held, const Stretch& stretch,
          std::vector<std::vector<WrittenBox>>& written) {
  const auto give = [&](std::size_t place, Box box) {
    written.at(static_cast<std::size_t>(held.holders[place]))
        .push_back({held.tensor, std::move(box)});
  };
  if (!may_be_cut(held)) return give(place_of_middle(held, stretch), held.box);
  std::int64_t row = 0;
  for (std::size_t place = 0; place < held.holders.size(); ++place) {
    const std::uint64_t end = end_of(stretch.bytes, place, held.holders.size());
    if (end <= stretch.passed) continue;
    const bool is_last = place + 1 == held.holders.size();
    const std::int64_t to =
        is_last ? held.box.shape.front() : rows_up_to(held, end - stretch.passed);
    if (to > row) give(place, rows_of(held.box, row, to));
    row = std::max(row, to);
    if (row == held.box.shape.front()) return;
  }
}

}  // namespace

std::vector<std::vector<WrittenBox>> share_out(const std::vector<HeldBox>& held, int ranks) {
  std::map<std::vector<int>, Stretch> stretches;
  for (const HeldBox& box : held) stretches[box.holders].bytes += box.bytes;
  std::vector<std::vector<WrittenBox>> written(static_cast<std::size_t>(ranks));
  for (const HeldBox& box : held) {
    Stretch& stretch = stretches[box.holders];
    deal(box, stretch, written);
    stretch.passed += box.bytes;
  }
  return written;
}

}  // namespace lockstep::checkpoint
