// Under whose names a file keeps a model, and what stands before them.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/names/match_names.h"
#include "lockstep/checkpoint/names/name_map.h"

namespace lockstep::checkpoint {

struct Naming {
  const NameMap* map = nullptr;    // whose names they are; null: ours
  std::vector<std::string> names;  // without what was taken off, one for each that was given
  std::vector<std::string> notes;  // what was taken off
  std::size_t matches = 0;         // wanted tensors that are found so
};

/// The tables for models of that family ("gpt", "resnet", ... of the configuration, or the name of
/// a table); none when it has none.
[[nodiscard]] std::vector<const NameMap*> tables_of(std::string_view family);

/// The naming that finds most of `wanted`; of several: names as they are, then our names behind
/// prefixes, then those of the family's tables. \param strip "": prefixes of wrappers and of dicts
/// around a state dict ("state_dict.") where that helps; "none"; or "a.,b.": exactly these.
/// \throws BadData (LS-5014) as strip_prefixes() and strip_given().
[[nodiscard]] Naming find_naming(std::span<const std::string> names,
                                 std::span<const WantedTensor> wanted, std::string_view family,
                                 const std::string& strip, const std::string& where);

/// The names of all, aliases among them.
[[nodiscard]] std::vector<std::string> names_of(std::span<const WantedTensor> wanted);

/// Why no name is one of the model's, and what might help.
struct NamingHint {
  std::string text;   // "did you mean to strip `policy.`?"; empty = nothing is known
  std::string strip;  // the prefix that would make names fit; empty = none
};
/// \param names as they stand in the file.
[[nodiscard]] NamingHint naming_hint(std::span<const std::string> names,
                                     std::span<const WantedTensor> wanted, std::string_view family);

}  // namespace lockstep::checkpoint
