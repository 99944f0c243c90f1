#include "lockstep/comm/host_layout.h"

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <string_view>

namespace lockstep::comm {
namespace {

constexpr std::size_t kMostDigits = 6;  // of a rank

bool is_power_of_two(std::size_t n) { return n > 0 && (n & (n - 1)) == 0; }

using Translate = std::function<std::string(const std::string& number)>;

/// Copies "0, 1 and 3" that starts at `at` with each number replaced. \returns where it ends.
std::size_t translate_list(const std::string& text, std::size_t at, const Translate& translate,
                           std::string& out) {
  constexpr std::string_view kBetween[] = {", ", " and "};
  for (;;) {
    std::size_t end = at;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    const std::string digits = text.substr(at, end - at);
    out += digits.empty() || digits.size() > kMostDigits ? digits : translate(digits);
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

/// The text with every number replaced that follows "rank " or stands in a list after "ranks ".
std::string translate_ranks(const std::string& text, const Translate& translate) {
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
    at = translate_list(text, at + word.size(), translate, out);
  }
  return out;
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
  return translate_ranks(text, [&](const std::string& number) {
    const std::size_t local = std::stoul(number);
    return local < ranks.size() ? std::to_string(ranks[local]) : number;
  });
}

std::vector<int> ranks_named_in(const std::string& text) {
  std::vector<int> ranks;
  (void)translate_ranks(text, [&](const std::string& number) {
    ranks.push_back(std::stoi(number));
    return number;
  });
  return ranks;
}

}  // namespace lockstep::comm
