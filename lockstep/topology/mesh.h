// The grid of ranks: which rank sits where along each axis of parallelism.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace lockstep {

/// Index of a process in the whole job, 0 <= rank < world size.
enum class Rank : int {};
[[nodiscard]] constexpr int index(Rank rank) noexcept { return static_cast<int>(rank); }

/// Axes of the mesh, slowest links first. "axis" is the mesh, "dim" is a tensor.
enum class Axis : std::uint8_t { pp, dp, tp };
inline constexpr std::size_t kAxisCount = 3;
[[nodiscard]] std::string_view name(Axis axis);

/// One number per axis: a rank's place in the mesh, or the degree of each axis.
using Coord = std::array<int, kAxisCount>;

/// A grid of ranks. A plain value: it holds no socket and touches no device.
class Mesh {
 public:
  /// \param degree ranks along pp, dp, tp; every one at least 1.
  /// \throws UsageError with one problem per axis below 1.
  explicit Mesh(Coord degree);

  [[nodiscard]] int degree(Axis axis) const { return degree_.at(static_cast<std::size_t>(axis)); }
  [[nodiscard]] int world_size() const;
  [[nodiscard]] Coord coord_of(Rank rank) const;
  [[nodiscard]] Rank rank_at(const Coord& coord) const;

  /// The place of `rank` along `axis`, 0 <= place < degree(axis).
  [[nodiscard]] int place(Rank rank, Axis axis) const;
  /// Whether `rank` is the first along `axis`: the role of printing, or of the first stage.
  [[nodiscard]] bool is_first(Rank rank, Axis axis) const { return place(rank, axis) == 0; }
  [[nodiscard]] bool is_last(Rank rank, Axis axis) const {
    return place(rank, axis) + 1 == degree(axis);
  }

  /// Ranks that share every coordinate of `rank` but the one on `axis`, in axis order.
  [[nodiscard]] std::vector<Rank> peers(Rank rank, Axis axis) const;

 private:
  Coord degree_;
};

/// The one rank that prints, writes the run directory and reports to the front.
inline constexpr Rank kPrintingRank{0};

}  // namespace lockstep
