// Values in the pickles of DeepSpeed's files, looked up by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/foreign/deepspeed_layout.h"
#include "lockstep/checkpoint/foreign/deepspeed_parts.h"

namespace lockstep::checkpoint {

inline constexpr std::size_t kMaxDeepSpeedName = 1024;  // bytes; tensors have copies

[[nodiscard]] std::string path_of(const OpenTorchFile& file);

/// What stands under `key`; nullptr also for None.
[[nodiscard]] const PickleValue* found(const PickleValue& dict, std::string_view key);
[[nodiscard]] bool is_dict(const PickleValue* value);  // of nullptr false

// What stands under `key` of `dict` in `file`. \throws BadData (LS-5020) when it is none.
[[nodiscard]] const PickleValue& need_dict(const OpenTorchFile& file, const PickleValue& dict,
                                           const std::string& key);
[[nodiscard]] std::span<const PickleValue* const> need_list(const OpenTorchFile& file,
                                                            const PickleValue& dict,
                                                            const std::string& key);

/// A number, also one of an enumeration; of nullptr nothing.
[[nodiscard]] std::optional<std::int64_t> integer_of(const PickleValue* value);

/// The entries of a dict whose keys are integers, of each the first.
[[nodiscard]] std::map<std::int64_t, const PickleValue*> by_number(const PickleValue& dict);

/// The names of a dict, or of several, each of which may come once.
class NewNames {
 public:
  /// \param what the dict is called, for messages.
  NewNames(const OpenTorchFile& file, std::string what)
      : where_(path_of(file)), what_(std::move(what)) {}

  /// \throws BadData (LS-5020) when `key` is no text of at most kMaxDeepSpeedName bytes, or is here
  /// already.
  std::string_view add(const PickleValue& key);

  [[nodiscard]] const std::string& where() const { return where_; }
  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  std::string where_;
  std::string what_;
  std::set<std::string_view> seen_;
};

/// The entries of a dict. \throws as NewNames::add().
[[nodiscard]] std::map<std::string_view, const PickleValue*> by_name(const PickleValue& dict,
                                                                     NewNames names);

/// The parameters of a dict name -> shape. \throws as NewNames::add(); BadData (LS-5020) when one
/// has no shape.
[[nodiscard]] std::vector<FlatParameter> parameters_of(const PickleValue& dict, NewNames& names);

}  // namespace lockstep::checkpoint
