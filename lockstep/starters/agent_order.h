// What a launcher is told on standard input of the host it is started on: its command and all that
// must stand on no command line.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::starters {

/// Words, values and the secret travel as bytes, never through a shell.
struct AgentOrder {
  std::vector<std::string> command;      // program and arguments; the program by path or by PATH
  std::vector<std::string> environment;  // "KEY=value", beside what the host's own login sets
  std::string folder;                    // to work in
  std::string secret;  // bytes that the command reads from descriptor 3; may be empty

  friend bool operator==(const AgentOrder&, const AgentOrder&) = default;
};

/// The first line: "lockstep-agent 1 LENGTH"; LENGTH bytes of fields follow, each with a NUL behind
/// it.
inline constexpr std::string_view kOrderMagic = "lockstep-agent 1 ";
inline constexpr std::size_t kLongestOrder = 8 << 20;

[[nodiscard]] std::string to_bytes(const AgentOrder& order);

enum class OrderState : std::uint8_t { incomplete, complete, malformed };
struct ReadOrder {
  OrderState state = OrderState::incomplete;
  AgentOrder order;            // when complete
  std::size_t used_bytes = 0;  // of the input
};

/// The order at the beginning of what has come so far. Allocates no more than has come.
[[nodiscard]] ReadOrder read_order(std::string_view bytes);

}  // namespace lockstep::starters
