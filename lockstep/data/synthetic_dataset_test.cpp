#include "lockstep/data/synthetic_dataset.h"

#include <ATen/ops/cdist.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using Ids = std::vector<std::int64_t>;

Ids ids_from(std::int64_t first, std::int64_t count) {
  Ids ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

// Share of `test` samples whose nearest class mean, taken from `train`, is their own.
double nearest_mean_accuracy(const Dataset& train, const Dataset& test, std::int64_t classes) {
  const Batch known = train.collate(ids_from(0, train.size()), 0);
  const Batch asked = test.collate(ids_from(0, test.size()), 0);
  const at::Tensor features = known.input.flatten(1);
  at::Tensor means = at::zeros({classes, features.size(1)});
  for (std::int64_t c = 0; c < classes; ++c) {
    means[c] = features.index({known.target.eq(c)}).mean(0);
  }
  const at::Tensor distances = at::cdist(asked.input.flatten(1), means);
  return distances.argmin(1).eq(asked.target).to(at::kDouble).mean().item<double>();
}

TEST(SyntheticClasses, TeachFeaturesThatGeneraliseToTheEvaluationPart) {
  const SyntheticClasses train({32}, 10, 500, SyntheticPart::train);
  const SyntheticClasses eval({32}, 10, 200, SyntheticPart::eval);
  EXPECT_GT(nearest_mean_accuracy(train, eval, 10), 0.9);
}

TEST(SyntheticClasses, TeachImagesThatGeneraliseToTheEvaluationPart) {
  const SyntheticClasses train({3, 8, 8}, 10, 500, SyntheticPart::train);
  const SyntheticClasses eval({3, 8, 8}, 10, 200, SyntheticPart::eval);
  EXPECT_GT(nearest_mean_accuracy(train, eval, 10), 0.9);
}

TEST(SyntheticClasses, ASampleDependsOnItsIdAloneAndPartsDiffer) {
  const SyntheticClasses train({1, 4, 4}, 10, 100, SyntheticPart::train);
  const SyntheticClasses eval({1, 4, 4}, 10, 100, SyntheticPart::eval);
  const Batch together = train.collate(Ids{5, 60, 7}, 1);
  EXPECT_TRUE(at::equal(together.input[1], train.collate(Ids{60}, 2).input[0]));
  EXPECT_FALSE(at::equal(together.input[0], together.input[2]));
  EXPECT_FALSE(at::equal(together.input, eval.collate(Ids{5, 60, 7}, 1).input));
  EXPECT_TRUE(together.input.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ(together.weight, 3);
  EXPECT_THROW((void)train.collate(Ids{100}, 0), Bug);
}

TEST(SyntheticClasses, LargeSamplesFindEnoughNoise) {
  const SyntheticClasses large({3, 224, 224}, 2, 3, SyntheticPart::train);
  EXPECT_EQ(large.collate(Ids{0, 2}, 0).input.sizes(), (at::IntArrayRef{2, 3, 224, 224}));
}

TEST(SyntheticTokens, TargetsAreTheInputsOneFurther) {
  const SyntheticTokens tokens(16, 50, 10, SyntheticPart::train);
  const Batch batch = tokens.collate(ids_from(0, 10), 0);
  EXPECT_TRUE(at::equal(batch.input.narrow(1, 1, 15), batch.target.narrow(1, 0, 15)));
  EXPECT_LT(batch.target.max().item<std::int64_t>(), 50);
  EXPECT_GE(batch.input.min().item<std::int64_t>(), 0);
  EXPECT_EQ(batch.weight, 160);
  EXPECT_EQ(tokens.collate({}, 0).weight, 0);
}

TEST(SyntheticTokens, MostTokensFollowOneSuccessorInBothParts) {
  const SyntheticTokens train(64, 20, 100, SyntheticPart::train);
  const SyntheticTokens eval(64, 20, 100, SyntheticPart::eval);
  std::map<std::int64_t, std::map<std::int64_t, int>> follows;
  const Batch seen = train.collate(ids_from(0, 100), 0);
  for (std::int64_t k = 0; k < seen.input.numel(); ++k) {
    ++follows[seen.input.const_data_ptr<std::int64_t>()[k]]
             [seen.target.const_data_ptr<std::int64_t>()[k]];
  }
  const Batch asked = eval.collate(ids_from(0, 100), 0);
  int right = 0;
  for (std::int64_t k = 0; k < asked.input.numel(); ++k) {
    const auto& after = follows[asked.input.const_data_ptr<std::int64_t>()[k]];
    const auto likeliest =
        std::max_element(after.begin(), after.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    right += likeliest != after.end() &&
                     likeliest->first == asked.target.const_data_ptr<std::int64_t>()[k]
                 ? 1
                 : 0;
  }
  EXPECT_NEAR(right / 6400.0, 7.0 / 8 + 1.0 / 160, 0.03);  // also hit by chance: 1/8 of 1/20
}

}  // namespace
}  // namespace lockstep::data
