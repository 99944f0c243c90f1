#include "lockstep/engine/train_state.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/base/sha256.h"

namespace lockstep::engine {
namespace {

StateEntry entry(const std::string& name, const at::Tensor& tensor,
                 StateKind kind = StateKind::parameter) {
  return {name, kind, tensor, tensor.sizes().vec(), std::vector<std::int64_t>(tensor.dim(), 0), {}};
}

TrainState two_parameters() {
  TrainState state;
  state.entries.push_back(entry("b", at::arange(6, at::kFloat).view({2, 3})));
  state.entries.push_back(entry("a", at::ones({2})));
  return state;
}

TEST(TrainState, TheParametersHashIsOverTheirBytesInNameOrder) {
  const float bytes[] = {1, 1, 0, 1, 2, 3, 4, 5};  // a, then b
  const std::string_view text(reinterpret_cast<const char*>(bytes), sizeof bytes);
  EXPECT_EQ(parameters_sha256(two_parameters()), sha256_hex(text));
}

TEST(TrainState, TheParametersHashLooksAtNothingElse) {
  TrainState state = two_parameters();
  const std::string before = parameters_sha256(state);
  state.entries.push_back(entry("a/moment1", at::ones({2}), StateKind::optimizer));
  state.entries.push_back(entry("seen", at::ones({1}, at::kLong), StateKind::buffer));
  state.step = 7;
  EXPECT_EQ(parameters_sha256(state), before);
}

TEST(TrainState, StridesAndOrderOfEntriesDoNotMatter) {
  const at::Tensor images = at::arange(2 * 3 * 4 * 5, at::kFloat).view({2, 3, 4, 5});
  TrainState plain;
  plain.entries = {entry("conv", images), entry("bias", at::ones({3}))};
  TrainState channels_last;
  channels_last.entries = {entry("bias", at::ones({3})),
                           entry("conv", images.contiguous(at::MemoryFormat::ChannelsLast))};
  ASSERT_FALSE(channels_last.entries[1].tensor.is_contiguous());
  EXPECT_EQ(parameters_sha256(plain), parameters_sha256(channels_last));
  EXPECT_EQ(state_sha256(plain), state_sha256(channels_last));
}

TEST(TrainState, EveryCounterNameShapeAndKindIsInTheStateHash) {
  const TrainState state = two_parameters();
  std::vector<TrainState> others(12, state);
  others[0].step = 1;
  others[1].position.epoch = 1;
  others[2].position.sample = 1;
  others[3].skipped_steps = 1;
  others[4].entries[0].name = "c";
  others[5].entries[0] = entry("b", state.entries[0].tensor.view({3, 2}));
  others[6].entries[0].kind = StateKind::buffer;
  others[7].entries.pop_back();
  others[8].entries[0] = entry("b", state.entries[0].tensor.to(at::kDouble));
  others[9].loss_scale = {65536, 0};
  others[10].loss_scale = {65536, 1};
  others[11].loss_scale = {32768, 0};
  std::vector<std::string> hashes{state_sha256(state)};
  for (const TrainState& other : others) {
    const std::string hash = state_sha256(other);
    EXPECT_EQ(std::count(hashes.begin(), hashes.end(), hash), 0) << hashes.size() - 1;
    hashes.push_back(hash);
  }
}

TEST(TrainState, TheHashIsThatOfTheLiveMemory) {
  TrainState state = two_parameters();
  const std::string before = state_sha256(state);
  state.entries[1].tensor[0] = 2.0F;
  EXPECT_NE(state_sha256(state), before);
  state.entries[1].tensor[0] = 1.0F;
  EXPECT_EQ(state_sha256(state), before);
}

TEST(TrainState, AShardCannotBeHashed) {
  TrainState state = two_parameters();
  state.entries[0].global_shape = {4, 3};
  EXPECT_THROW((void)parameters_sha256(state), Bug);
  EXPECT_THROW((void)state_sha256(state), Bug);
}

}  // namespace
}  // namespace lockstep::engine
