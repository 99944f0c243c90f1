#include "lockstep/base/nearest.h"

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

constexpr std::size_t kLongestWord = 64;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::size_t allowed_edits(std::size_t length) { return std::max<std::size_t>(1, length / 3); }

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rows of the table are alive: two above for a swap, one above, and this one.
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::string nearest_name(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.size() > kLongestWord) return {};
  std::string_view best;
  std::size_t fewest = allowed_edits(word.size()) + 1;
  for (const std::string_view candidate : candidates) {
    if (candidate.size() > kLongestWord) continue;
    const std::size_t edits = edit_distance(word, candidate);
    if (edits < fewest) {
      fewest = edits;
      best = candidate;
    }
  }
  return std::string(best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> candidates,
                         std::string_view otherwise) {
  const std::string name = nearest_name(word, candidates);
  return name.empty() ? std::string(otherwise) : "did you mean " + name + "?";
}

std::string nearest_divisors(std::int64_t number, std::int64_t wanted) {
  std::int64_t below = 1;
  std::int64_t above = number;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d != 0) continue;
    for (const std::int64_t divisor : {d, number / d}) {
      if (divisor <= wanted) below = std::max(below, divisor);
      if (divisor >= wanted) above = std::min(above, divisor);
    }
  }
  // Beyond the number itself there is nothing above.
  if (wanted > number || below == above) return std::to_string(below);
  return std::to_string(below) + " or " + std::to_string(above);
}

}  // namespace lockstep
