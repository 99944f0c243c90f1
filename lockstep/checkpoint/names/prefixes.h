// What wrappers put into the names of a state dict, and taking it out again: "module." of
// DistributedDataParallel, "_orig_mod." of torch.compile, "model." of trainers.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::checkpoint {

/// Names with less in them.
struct Stripped {
  std::vector<std::string> names;     // one for each that was given, in their order
  std::vector<std::string> prefixes;  // taken off, as they stood: "_orig_mod.", "module."
  std::string added;                  // put before names that only so are the model's: "model."
  std::vector<std::string> notes;     // "stripped `module.` from 122 of 122 names"
};

/// Takes out marks that stand for no part of a model ("_orig_mod", "_fsdp_wrapped_module",
/// "_checkpoint_wrapped_module"), wherever they stand, and prefixes. With `wanted`, the names of
/// the model: those prefixes of module., model., network., net., backbone. and their combinations
/// (or one of them added) that make most names the model's; names that already are stay. Without,
/// or where nothing makes any name the model's: "module." where every name has it. What would give
/// two tensors one name is left as it is, with a note.
/// \throws BadData (LS-5014) where two ways fit equally well and differ in what they give to whom.
/// \param where the file, for messages.
[[nodiscard]] Stripped strip_prefixes(std::span<const std::string> names,
                                      std::span<const std::string> wanted,
                                      const std::string& where);

/// Takes off exactly these, each as often as it stands before a name, and marks anywhere.
/// \param prefixes with or without the dot. \throws BadData (LS-5014) where that would give two
/// tensors one name.
[[nodiscard]] Stripped strip_given(std::span<const std::string> names,
                                   std::span<const std::string> prefixes, const std::string& where);

/// What would make names the model's that are not.
struct PrefixHint {
  std::string prefix;  // "model."; empty = nothing would
  bool add = false;    // instead of strip
  std::size_t matches = 0;
};
/// Any prefix that ends in a dot, not only those of wrappers.
[[nodiscard]] PrefixHint find_prefix_hint(std::span<const std::string> names,
                                          std::span<const std::string> wanted);

}  // namespace lockstep::checkpoint
