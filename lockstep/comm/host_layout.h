// Which rank of a group runs on which host, and what can be made of it. Numbers only.
#pragma once
#include <string>
#include <vector>

namespace lockstep::comm {

/// Seen from one rank. Hosts are numbered in the order of their first ranks.
class HostLayout {
 public:
  /// \param host_of_rank what names the host of each rank of the group. \param rank whose view.
  HostLayout(const std::vector<std::string>& host_of_rank, int rank);

  [[nodiscard]] int hosts() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int host() const { return host_of(rank_); }
  [[nodiscard]] int local() const { return local_of(rank_); }
  [[nodiscard]] int host_of(int rank) const { return host_of_.at(index(rank)); }
  /// The number of a rank among those of its host.
  [[nodiscard]] int local_of(int rank) const { return local_of_.at(index(rank)); }
  /// Ascending.
  [[nodiscard]] const std::vector<int>& ranks_of(int host) const { return ranks_.at(index(host)); }
  [[nodiscard]] int most_on_a_host() const;

  [[nodiscard]] bool is_shared() const { return most_on_a_host() > 1; }  // some host
  /// Every host has as many ranks as any other.
  [[nodiscard]] bool is_even() const;
  /// The ranks of every host follow each other.
  [[nodiscard]] bool is_contiguous() const;
  /// The balanced tree over the ranks is the tree over hosts of the trees inside them.
  [[nodiscard]] bool nests_tree() const;

 private:
  static std::size_t index(int number) { return static_cast<std::size_t>(number); }

  int rank_;
  std::vector<std::vector<int>> ranks_;  // of each host
  std::vector<int> host_of_;             // each rank
  std::vector<int> local_of_;
};

/// A message about ranks numbered inside a host, in the numbers of the group.
/// \param ranks of that host: what local rank 0, 1, ... is.
[[nodiscard]] std::string in_group_numbers(const std::string& text, const std::vector<int>& ranks);
/// The numbers that such a message names ranks by, in the order they stand there.
[[nodiscard]] std::vector<int> ranks_named_in(const std::string& text);

}  // namespace lockstep::comm
