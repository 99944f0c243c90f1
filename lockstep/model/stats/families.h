// One row per model family: its statistics and its checks. Shared by the families' two halves.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/model/stats/model_stats.h"

namespace lockstep::model {

struct FamilyStats {
  config::Family family;
  std::string_view name;
  ModelStats (*stats)(const config::ModelSection& config, std::int64_t seq_len);
  std::vector<Problem> (*check)(const config::ModelSection& config);
};
[[nodiscard]] std::span<const FamilyStats> family_stats();

[[nodiscard]] ModelStats mlp_stats(const config::ModelSection& config, std::int64_t seq_len);
[[nodiscard]] ModelStats resnet_stats(const config::ModelSection& config, std::int64_t seq_len);
[[nodiscard]] ModelStats gpt_stats(const config::ModelSection& config, std::int64_t seq_len);
[[nodiscard]] std::vector<Problem> check_mlp(const config::ModelSection& config);
[[nodiscard]] std::vector<Problem> check_resnet(const config::ModelSection& config);
[[nodiscard]] std::vector<Problem> check_gpt(const config::ModelSection& config);

/// Basic blocks of one image size; every stage but the first halves it.
struct ResnetStage {
  std::int64_t width = 0;  // channels
  std::int64_t blocks = 0;
};
/// Depth 18: 64..512 wide, two blocks each; 6n+2: 16, 32, 64 wide, n blocks each (He et al. 2016,
/// section 4.2). Empty when no network here has that depth.
[[nodiscard]] std::vector<ResnetStage> resnet_stages(std::int64_t depth);
/// Whether a basic block needs a 1x1 convolution beside its main path.
[[nodiscard]] constexpr bool resnet_has_shortcut(std::int64_t inputs, std::int64_t width,
                                                 std::int64_t stride) {
  return inputs != width || stride != 1;
}

/// Longest sequence whose attention shares are kept for backward; longer ones are recomputed.
inline constexpr std::int64_t kMostAttended = 512;
/// Queries that are taken together: they see the keys up to the last of them, so of the square of
/// scores little more than the lower half is computed and kept.
inline constexpr std::int64_t kQueryBlock = 64;
/// Attention shares of one head that are kept: rows x keys seen, over all query blocks.
[[nodiscard]] std::int64_t kept_shares(std::int64_t tokens);

/// A problem when `value` of key model.`key` is below `least`, appended to `problems`.
void require_at_least(std::vector<Problem>& problems, const std::string& key, std::int64_t value,
                      std::int64_t least);

}  // namespace lockstep::model
