// The forms of torchrun's values, from text. Nothing = the text is not of that form.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::launch {

/// The streams of a rank, by the bits that torchrun gives them.
inline constexpr unsigned kStdout = 1;
inline constexpr unsigned kStderr = 2;

/// Some streams of some ranks: --redirects and --tee.
struct StreamChoice {
  unsigned of_all = 0;
  std::map<int, unsigned> of_rank;  // by local rank; where there is one, the other ranks have none

  [[nodiscard]] unsigned of(int local_rank) const;
  [[nodiscard]] bool any() const;
};

struct NodeRange {
  int least = 1;
  int most = 1;
};

// Where hosts meet when no port is named (torch/distributed/run.py 2.11; etcd's client port).
inline constexpr int kStaticPort = 29500;
inline constexpr int kC10dPort = 29400;
inline constexpr int kEtcdPort = 2379;

struct Endpoint {
  std::string host;
  int port = -1;  // none was named
};

/// "3": with leading and trailing blanks, as Python's int().
[[nodiscard]] std::optional<int> parse_count(std::string_view text);
/// "2" or "1:4", at least 1.
[[nodiscard]] std::optional<NodeRange> parse_nodes(std::string_view text);
/// "3", or "0:3,1:0".
[[nodiscard]] std::optional<StreamChoice> parse_streams(std::string_view text);
/// "0,2".
[[nodiscard]] std::optional<std::set<int>> parse_ranks(std::string_view text);
/// "host", "host:29400", "[::1]:29400", "::1".
[[nodiscard]] std::optional<Endpoint> parse_endpoint(std::string_view text);
/// "a=1,b=2".
[[nodiscard]] std::optional<std::map<std::string, std::string>> parse_settings(
    std::string_view text);
/// "apple,orange"; a comma inside an item is written twice.
[[nodiscard]] std::vector<std::string> parse_filters(std::string_view text);
/// The number of "SIGTERM"; nothing when it has none or no process may handle it.
[[nodiscard]] std::optional<int> parse_signal(std::string_view name);
/// "SIGTERM"; "signal 99" when it has no name.
[[nodiscard]] std::string signal_name(int number);
/// "0", "1", "true", "no" ...: the value of a variable that stands for a switch.
[[nodiscard]] std::optional<bool> parse_switch(std::string_view text);

}  // namespace lockstep::launch
