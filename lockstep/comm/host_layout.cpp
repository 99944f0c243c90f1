#include "lockstep/comm/host_layout.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

namespace lockstep::comm {
namespace {

bool is_power_of_two(std::size_t n) { return n > 0 && (n & (n - 1)) == 0; }

/// Copies "0, 1 and 3" that starts at `at` with each number replaced. \returns where it ends.
std::size_t translate_list(const std::string& text, std::size_t at, const std::vector<int>& ranks,
                           std::string& out) {
  constexpr std::string_view kBetween[] = {", ", " and "};
  for (;;) {
    std::size_t end = at;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const std::string digits = text.substr(at, end - at);
    const std::size_t local = digits.size() > 6 ? ranks.size() : std::stoul("0" + digits);
    out += !digits.empty() && local < ranks.size() ? std::to_string(ranks[local]) : digits;
    const auto* const next = std::find_if(std::begin(kBetween), std::end(kBetween), [&](auto word) {
      const std::size_t after = end + word.size();
      return text.compare(end, word.size(), word) == 0 && after < text.size() &&
             std::isdigit(static_cast<unsigned char>(text[after])) != 0;
    });
    if (digits.empty() || next == std::end(kBetween)) return end;
    out += *next;
    at = end + next->size();
  }
}

}  // namespace

HostLayout::HostLayout(const std::vector<std::string>& host_of_rank, int rank) : rank_(rank) {
  std::map<std::string_view, int> numbers;
  for (const std::string& host : host_of_rank) {
    const int number = numbers.try_emplace(host, hosts()).first->second;
    if (number == hosts()) ranks_.emplace_back();
    std::vector<int>& ranks = ranks_[index(number)];
    local_of_.push_back(static_cast<int>(ranks.size()));
    ranks.push_back(static_cast<int>(host_of_.size()));
    host_of_.push_back(number);
  }
}

int HostLayout::most_on_a_host() const {
  std::size_t most = 0;
  for (const auto& ranks : ranks_) most = std::max(most, ranks.size());
  return static_cast<int>(most);
}

bool HostLayout::is_even() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [&](const auto& ranks) { return ranks.size() == ranks_.front().size(); });
}

bool HostLayout::is_contiguous() const { return std::is_sorted(host_of_.begin(), host_of_.end()); }

bool HostLayout::nests_tree() const {
  return is_even() && is_contiguous() && is_power_of_two(ranks_.front().size());
}

std::string in_group_numbers(const std::string& text, const std::vector<int>& ranks) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const bool starts = at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0;
    const std::string_view word = text.compare(at, 5, "rank ") == 0    ? "rank "
                                  : text.compare(at, 6, "ranks ") == 0 ? "ranks "
                                                                       : "";
    if (!starts || word.empty()) {
      out += text[at++];
      continue;
    }
    out += word;
    at = translate_list(text, at + word.size(), ranks, out);
  }
  return out;
}

}  // namespace lockstep::comm
