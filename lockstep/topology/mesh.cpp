#include "lockstep/topology/mesh.h"

#include <string>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr std::array<std::string_view, kAxisCount> kAxisNames{"pp", "dp", "tp"};

constexpr std::size_t slot(Axis axis) { return static_cast<std::size_t>(axis); }

}  // namespace

std::string_view name(Axis axis) { return kAxisNames.at(slot(axis)); }

Mesh::Mesh(Coord degree) : degree_(degree) {
  std::vector<Problem> problems;
  for (std::size_t a = 0; a < kAxisCount; ++a) {
    if (degree_.at(a) >= 1) continue;
    problems.push_back({"LS-6051", "mesh axis " + std::string(kAxisNames.at(a)),
                        "has " + std::to_string(degree_.at(a)) + " ranks",
                        "give every axis at least 1 rank; 1 means the axis is not used"});
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
}

int Mesh::world_size() const {
  int ranks = 1;
  for (const int along : degree_) ranks *= along;
  return ranks;
}

// Ranks count like digits: tp turns fastest, so neighbours on tp have the shortest links.
Coord Mesh::coord_of(Rank rank) const {
  LOCKSTEP_CHECK(index(rank) >= 0 && index(rank) < world_size(), "rank outside of the mesh");
  Coord coord{};
  int rest = index(rank);
  for (std::size_t a = kAxisCount; a-- > 0;) {
    coord.at(a) = rest % degree_.at(a);
    rest /= degree_.at(a);
  }
  return coord;
}

Rank Mesh::rank_at(const Coord& coord) const {
  int rank = 0;
  for (std::size_t a = 0; a < kAxisCount; ++a) {
    LOCKSTEP_CHECK(coord.at(a) >= 0 && coord.at(a) < degree_.at(a), "place outside of the mesh");
    rank = rank * degree_.at(a) + coord.at(a);
  }
  return Rank{rank};
}

int Mesh::place(Rank rank, Axis axis) const { return coord_of(rank).at(slot(axis)); }

std::vector<Rank> Mesh::peers(Rank rank, Axis axis) const {
  std::vector<Rank> ranks;
  ranks.reserve(static_cast<std::size_t>(degree(axis)));
  Coord coord = coord_of(rank);
  for (coord.at(slot(axis)) = 0; coord.at(slot(axis)) < degree(axis); ++coord.at(slot(axis))) {
    ranks.push_back(rank_at(coord));
  }
  return ranks;
}

}  // namespace lockstep
