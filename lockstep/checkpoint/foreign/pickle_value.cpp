#include "lockstep/checkpoint/foreign/pickle_value.h"

#include <array>

#include "lockstep/checkpoint/foreign/pickle_tree.h"

namespace lockstep::checkpoint {

std::string_view to_text(PickleKind kind) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"None", "a bool", "an integer", "a huge integer", "a float", "a text", "bytes", "a tuple",
       "a list", "a set", "a dict", "a global", "an object", "a persistent id", "a skipped value"});
  return kNames[static_cast<std::size_t>(kind)];
}

const PickleValue* PickleValue::find(std::string_view key) const {
  for (std::size_t i = entries(); i-- > 0;) {
    const auto [name, value] = entry(i);
    if (name->is(PickleKind::text) && name->text() == key) return value;
  }
  return nullptr;
}

PickleTree::PickleTree() : storage_(std::make_unique<Storage>()) {}
PickleTree::PickleTree(PickleTree&&) noexcept = default;
PickleTree& PickleTree::operator=(PickleTree&&) noexcept = default;
PickleTree::~PickleTree() = default;

}  // namespace lockstep::checkpoint
