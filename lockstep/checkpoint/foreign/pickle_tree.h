// What a PickleTree owns, and the check that its root is a tree of bounded size; for the machine.
#pragma once
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/foreign/pickle_value.h"

namespace lockstep::checkpoint {

/// Values never move: others point to them. Texts point into `pickle` or `texts`.
struct PickleTree::Storage {
  std::string pickle;
  std::deque<std::string> texts;
  std::deque<PickleValue> values;
};

/// Measures what hangs on a value, without recursion.
class PickleShape {
 public:
  /// \param values how many there are in the tree.
  PickleShape(std::size_t values, std::uint64_t max_visits)
      : measures_(values), max_visits_(max_visits) {}

  /// Why `root` is no finite tree within the limits; nothing when it is.
  [[nodiscard]] std::optional<std::string> fault(const PickleValue& root);

 private:
  enum class State : std::uint8_t { unseen, open, done };
  struct Measure {
    std::uint64_t visits = 1;  // of a walk over all below, with itself
    std::int32_t height = 0;   // levels below
    State state = State::unseen;
  };
  struct Frame {
    const PickleValue* value;
    std::size_t next_child;
  };

  [[nodiscard]] static const PickleValue* child(const PickleValue& value, std::size_t index);
  [[nodiscard]] std::optional<std::string> step();
  void close(const PickleValue& value);

  std::vector<Measure> measures_;
  std::vector<Frame> path_;
  std::uint64_t max_visits_;
};

}  // namespace lockstep::checkpoint
