// The names of a file in the words of one family's table: what stands for which of our tensors.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lockstep/checkpoint/names/name_map.h"

namespace lockstep::checkpoint {

/// What the tensors that one of ours is made of are called, in the table's own spelling; none where
/// the table does not know `ours`.
[[nodiscard]] std::vector<std::string> their_names_of(const NameMap& map, std::string_view ours);

class TheirNames {
 public:
  /// \param names as they stand in the file, under any of the spellings that the table knows.
  TheirNames(const NameMap& map, std::span<const std::string> names);

  /// Which of the names is meant. \param plain in the table's own spelling.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view plain) const;
  /// Whether all that `ours` is made of is there.
  [[nodiscard]] bool has(std::string_view ours) const;

  struct Pair {
    std::size_t first = 0;
    std::size_t second = 0;
  };
  /// Names that mean the same tensor. find() gives the first.
  [[nodiscard]] std::span<const Pair> twice() const { return twice_; }

 private:
  const NameMap& map_;
  std::unordered_map<std::string, std::size_t> places_;
  std::vector<Pair> twice_;
};

}  // namespace lockstep::checkpoint
