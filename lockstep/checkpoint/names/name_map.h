// One table a family: how our tensors are called elsewhere, and how theirs are made of ours.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/names/name_pattern.h"

namespace lockstep::checkpoint {

/// Whose names a checkpoint has.
enum class Convention : std::uint8_t { ours, theirs };

/// How their matrix lies in memory.
enum class Layout : std::uint8_t {
  same,    // as ours: [outputs, inputs]
  turned,  // [inputs, outputs]
};

/// One of our tensors. Names are patterns (\see name_pattern.h).
struct NameRule {
  std::string_view part;  // "layer": rules that stand or fall together; empty = this one alone
  bool needed = false;    // where any tensor of the part is, this one must be
  std::string_view ours;
  std::array<std::string_view, 3> theirs;  // their rows lie one below the other in ours
  Layout layout = Layout::same;
  /// Of several: our tensor with as many columns as the first has rows. The others share the rest.
  std::string_view first_rows{};
  bool reads_stream = false;  // has as many columns as the model is wide
  bool ours_only = false;     // their name leads to another of our tensors
};

/// Two names that may stand for one tensor: the embedding that is also the head's matrix. Where
/// both are stored and are equal byte for byte, the second becomes an alias of the first.
struct Tie {
  std::string_view ours;
  std::string_view ours_second;
  std::string_view theirs;
  std::string_view theirs_second;
};

/// A number (I64, no dims) that they keep beside one of our tensors and we do not: zero for them.
struct Counter {
  std::string_view ours;
  std::string_view theirs;
};

/// What they keep and nobody needs.
struct Unneeded {
  std::string_view theirs;
  std::string_view why;
};

/// An older end of their names.
struct Spelling {
  std::string_view old_end;
  std::string_view end;
};

struct NameMap {
  std::string_view family;  // "gpt2"
  std::string_view theirs;  // "GPT2LMHeadModel of Hugging Face transformers"
  /// Stands before most of their names, and before none where the model was saved without a head.
  std::string_view base_prefix;
  std::string_view stream;  // our tensor with as many columns as the model is wide
  std::span<const NameRule> rules;
  std::span<const Tie> ties;
  std::span<const Counter> counters;
  std::span<const Unneeded> unneeded;
  std::span<const Spelling> spellings;
};

/// All families.
[[nodiscard]] std::span<const NameMap> name_maps();
/// Null when there is none of that name.
[[nodiscard]] const NameMap* find_name_map(std::string_view family);
/// The family whose names these are (theirs, as they stand in their files), from half of them on;
/// null when there is none, or two fit equally well.
[[nodiscard]] const NameMap* guess_family(std::span<const std::string> names);

/// Whose names more of these are; nothing when the family knows none of them. Optimizer state
/// ("<name>/moment1") counts as its parameter.
[[nodiscard]] std::optional<Convention> convention_of(const NameMap& map,
                                                      std::span<const std::string> names);

/// A name found in a table.
struct KnownName {
  const NameRule* rule = nullptr;
  std::size_t place = 0;  // among rule->theirs
  Bindings bindings;
};
/// \param name without the suffix of optimizer state.
[[nodiscard]] std::optional<KnownName> find_name(const NameMap& map, Convention convention,
                                                 std::string_view name);

/// Why one of their tensors is left out; empty when it is not.
[[nodiscard]] std::string_view why_unneeded(const NameMap& map, std::string_view name);

/// "wte.weight/moment1" -> "wte.weight", "/moment1".
struct StateName {
  std::string_view parameter;
  std::string_view suffix;  // empty: the parameter itself
};
[[nodiscard]] StateName split_state_name(std::string_view name);

/// `rule.theirs` without those that are not there.
[[nodiscard]] std::span<const std::string_view> theirs_of(const NameRule& rule);

}  // namespace lockstep::checkpoint
