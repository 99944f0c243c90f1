// Networks by name, "llama-3-8b", "resnet50": docs/guides/models.md lists them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/model/stats/architecture.h"

namespace lockstep::model {

struct KnownModel {
  Architecture architecture;    // and its name
  std::int64_t parameters = 0;  // as the source says it, or as its tensors add up
  std::string_view source;
};

[[nodiscard]] std::span<const KnownModel> known_models();

/// Case, an owner before a slash and '_' for '-' do not count. nullptr when nobody has that name.
[[nodiscard]] const KnownModel* find_known_model(std::string_view name);

/// \param where it was named. \throws UsageError LS-6021 with the nearest names.
[[nodiscard]] const KnownModel& known_model(std::string_view name,
                                            const std::string& where = "--model");

}  // namespace lockstep::model
