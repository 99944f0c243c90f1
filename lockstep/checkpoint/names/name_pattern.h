// Patterns of tensor names: "blocks.{layer}.qkv.weight" stands for that tensor of every layer.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// A number that stands in a name, counted from 0.
struct Bound {
  std::string_view key;  // "layer"; lives as long as the pattern
  std::int64_t number = 0;
};
using Bindings = std::vector<Bound>;

/// The numbers of `name` when it is of that form. "{stage+1}" in a pattern stands for a number
/// that is counted from 1. Numbers have no leading zeros and at most nine digits.
[[nodiscard]] std::optional<Bindings> match_pattern(std::string_view pattern,
                                                    std::string_view name);

/// The pattern with those numbers in it. A key without a number is a Bug.
[[nodiscard]] std::string fill_pattern(std::string_view pattern, const Bindings& bindings);

}  // namespace lockstep::checkpoint
