// Which tensors of a checkpoint are which of a model, and what people are told about the rest.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

struct WantedTensor {
  std::string name;
  std::string dtype;
  Shape shape;
  std::vector<std::string> aliases{};  // of the same tensor
};

struct MatchedTensor {
  std::size_t stored = 0;  // indices into what was given
  std::size_t wanted = 0;
  bool same_dtype = true;
};

struct MatchReport {
  std::vector<MatchedTensor> matched;  // name and shape fit; in the order of the model
  std::size_t wanted = 0;              // how many there are
  std::vector<std::string> missing;    // names
  std::vector<std::string> unexpected;
  std::vector<std::string> other_shape;  // "fc.weight [2, 3] instead of [3, 2]"
  std::vector<std::string> other_dtype;  // "fc.weight F16 instead of F32"; they are matched
  std::string hint;                      // "did you mean to strip `model.`?"; empty = none

  [[nodiscard]] bool is_complete() const;
};

/// By name or alias on either side. A stored alias of a tensor that is matched already is not
/// unexpected.
[[nodiscard]] MatchReport match_names(std::span<const StoredTensor> stored,
                                      std::span<const WantedTensor> wanted);

/// "matched 120 of 122" and, each on a line of its own, the first eight of what does not fit.
[[nodiscard]] std::string to_text(const MatchReport& report);

/// What a load accepts.
struct MatchRules {
  bool partial = false;    // missing, unexpected and other shapes: those stay as they were
  bool any_dtype = false;  // the load converts
};

/// Why such a load must not be: LS-5014 when nothing at all is matched, whatever the rules; LS-5006
/// when more differs than they accept. \param where the file.
[[nodiscard]] std::optional<Problem> match_fault(const MatchReport& report, const MatchRules& rules,
                                                 const std::string& where);

}  // namespace lockstep::checkpoint
