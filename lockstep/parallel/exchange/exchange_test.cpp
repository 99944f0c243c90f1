// Every way to exchange gradients on several ranks; each rank has gradients of its own.
#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/parallel/exchange/orthogonal_rows.h"
#include "lockstep/parallel/exchange/registry.h"
#include "tests/support/rank_processes.h"

namespace lockstep::parallel {
namespace {

constexpr std::int64_t kRows = 60;
constexpr std::int64_t kColumns = 50;
constexpr std::int64_t kMatrix = kRows * kColumns;
constexpr std::int64_t kVector = 70;

/// A matrix and a vector in one bucket, control numbers behind them in another.
std::vector<BucketContent> contents() {
  return {{"bucket 0", kMatrix + kVector, {{0, kRows, kColumns}}, false},
          {"bucket 1", kMatrix + kVector, {{kVector, kRows, kColumns}}, true}};
}

at::Tensor values(int rank, std::int64_t count, int salt = 0) {
  const auto numbers = (at::arange(count, at::kLong) * 7919 + rank * 104'729 + salt * 31) % 2003;
  return numbers.to(at::kFloat) / 500.0F - 2.0F;
}

at::Tensor sum_over(int ranks, const std::function<at::Tensor(int)>& of_rank) {
  at::Tensor sum = of_rank(0);
  for (int r = 1; r < ranks; ++r) sum = sum + of_rank(r);
  return sum;
}

/// One step of an exchange with these buckets.
void exchange_all(Exchange& exchange, const std::vector<at::Tensor>& buckets) {
  for (std::size_t b = 0; b < buckets.size(); ++b) exchange.start(b, buckets[b]);
  for (std::size_t b = 0; b < buckets.size(); ++b) (void)exchange.finish(b);
}

void expect_equal_on_all_ranks(comm::Group& group, const at::Tensor& tensor) {
  const at::Tensor all = at::empty({group.size(), tensor.numel()});
  group.all_gather(all, tensor.contiguous())->wait();
  for (int r = 1; r < group.size(); ++r) EXPECT_TRUE(at::equal(all[r], all[0])) << r;
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

TEST(Exchange, PlainSumsAreThoseOfFp32) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto exchange = make_exchange("fp32", {group});
    exchange->adopt(contents());
    const at::Tensor first = values(group.rank(), kMatrix + kVector);
    const at::Tensor second = values(group.rank(), kMatrix + kVector, 1);
    exchange_all(*exchange, {first, second});
    EXPECT_TRUE(at::equal(first, sum_over(2, [](int r) { return values(r, kMatrix + kVector); })));
    EXPECT_TRUE(
        at::equal(second, sum_over(2, [](int r) { return values(r, kMatrix + kVector, 1); })));
  });
}

TEST(Exchange, SixteenBitsAreAddedInFp32AndRoundedOnce) {
  for (const auto& [name, type] :
       {std::pair{"bf16", at::kBFloat16}, std::pair{"fp16", at::kHalf}}) {
    test::run_ranks(3, [name = name, type = type](comm::Group& group) {
      const auto exchange = make_exchange(name, {group, comm::Order::any, 64.0});
      exchange->adopt(contents());
      const float divisor = type == at::kHalf ? 64.0F : 1.0F;
      const auto sent = [&](int r) {
        return (values(r, kMatrix + kVector) / divisor).to(type).to(at::kFloat);
      };
      for (int step = 0; step < 2; ++step) {
        const at::Tensor first = values(group.rank(), kMatrix + kVector);
        const at::Tensor last = values(group.rank(), kMatrix + kVector, 1);
        exchange_all(*exchange, {first, last});
        EXPECT_TRUE(at::equal(first, sum_over(3, sent).to(type).to(at::kFloat) * divisor)) << name;
        const auto plain = [](int r) { return values(r, kMatrix + kVector, 1); };
        EXPECT_LT(relative(last, sum_over(3, plain)), 1e-6) << "control numbers need fp32";
      }
    });
  }
}

TEST(Exchange, SumsOverALargeBatchStayInFp16) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto exchange = make_exchange("fp16", {group, comm::Order::any, 65'536.0});
    exchange->adopt(contents());
    const at::Tensor bucket = values(group.rank(), kMatrix + kVector) * 60'000.0F;
    const at::Tensor other = at::zeros({kMatrix + kVector});
    exchange_all(*exchange, {bucket, other});
    const auto sum = sum_over(2, [](int r) { return values(r, kMatrix + kVector) * 60'000.0F; });
    EXPECT_LT(relative(bucket, sum), 1e-3);
  });
}

TEST(Exchange, ASumBeyondFp16IsFoundOnAllRanksAndForgottenInTheNextStep) {
  test::run_ranks(2, [](comm::Group& group) {
    for (const auto& [name, finds] :
         {std::pair{"fp16", true}, std::pair{"bf16", false}, std::pair{"fp32", false}}) {
      const auto exchange = make_exchange(name, {group});
      auto buckets = contents();
      buckets.insert(buckets.begin(), {"first", 10, {}, false});
      exchange->adopt(buckets);
      exchange->begin_step(0);
      const auto tens = [](float value) { return at::full({10}, value); };
      const at::Tensor whole = values(group.rank(), kMatrix + kVector);
      at::Tensor large = whole.clone();
      large[7] = 40'000.0F;  // each is in the range of fp16, their sum is not
      exchange_all(*exchange, {tens(1), large, whole.clone()});
      EXPECT_EQ(exchange->overflown(), finds ? std::optional<std::size_t>(1) : std::nullopt)
          << name;
      exchange->begin_step(1);
      exchange_all(*exchange, {tens(1), whole.clone(), whole.clone()});
      EXPECT_EQ(exchange->overflown(), std::nullopt) << name;
    }
  });
}

TEST(PowerSgd, AMatrixOfLowRankArrivesWhole) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto exchange = make_exchange("powersgd", {group, comm::Order::any, 1, 2, 0, 7});
    exchange->adopt(contents());
    const auto of_rank = [](int r) {  // of rank 1 on each rank: of rank 2 in the sum
      return at::outer(values(r, kRows, 1), values(r, kColumns, 2)).view(-1);
    };
    const at::Tensor vector = values(group.rank(), kVector, 3);
    const at::Tensor first = at::cat({of_rank(group.rank()), vector});
    const at::Tensor last = at::cat({vector, of_rank(group.rank())});
    exchange_all(*exchange, {first, last});
    const at::Tensor matrix = sum_over(2, of_rank);
    const at::Tensor vectors = sum_over(2, [](int r) { return values(r, kVector, 3); });
    EXPECT_LT(relative(first.narrow(0, 0, kMatrix), matrix), 1e-5);
    EXPECT_LT(relative(last.narrow(0, kVector, kMatrix), matrix), 1e-5);
    EXPECT_TRUE(at::equal(first.narrow(0, kMatrix, kVector), vectors));
    EXPECT_TRUE(at::equal(last.narrow(0, 0, kVector), vectors));
    expect_equal_on_all_ranks(group, first);
  });
}

TEST(PowerSgd, SendsTheBytesOfItsFormula) {
  test::run_ranks(2, [](comm::Group& group) {
    for (const std::int64_t rank : {1, 4, 1000}) {
      const auto exchange = make_exchange("powersgd", {group, comm::Order::any, 1, rank, 0, 7});
      exchange->adopt(contents());
      const std::int64_t before = group.payload_bytes();
      exchange_all(*exchange, {values(0, kMatrix + kVector), values(1, kMatrix + kVector)});
      const std::int64_t factors = rank * (kRows + kColumns);
      const std::int64_t matrix = rank == 1000 ? kMatrix : factors;
      EXPECT_EQ(group.payload_bytes() - before, 2 * 4 * (matrix + kVector)) << rank;
    }
  });
}

TEST(PowerSgd, WhatIsLeftOutComesLater) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto exchange = make_exchange("powersgd", {group, comm::Order::any, 1, 4, 0, 7});
    exchange->adopt(contents());
    const auto of_rank = [](int r) { return values(r, kMatrix + kVector, 5); };
    const at::Tensor wanted = sum_over(2, of_rank);
    at::Tensor arrived = at::zeros({kMatrix + kVector});
    double first_error = 0;
    constexpr int kSteps = 60;
    for (int step = 0; step < kSteps; ++step) {
      const at::Tensor bucket = of_rank(group.rank());
      exchange_all(*exchange, {bucket, at::zeros({kMatrix + kVector})});
      arrived += bucket;
      if (step == 0) first_error = relative(arrived, wanted);
      expect_equal_on_all_ranks(group, bucket);
    }
    EXPECT_GT(first_error, 0.5) << "one step alone leaves much out";
    EXPECT_LT(relative(arrived / kSteps, wanted), 0.15);
  });
}

TEST(PowerSgd, FirstStepsAreExchangedWhole) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto exchange = make_exchange("powersgd", {group, comm::Order::any, 1, 4, 2, 7});
    exchange->adopt(contents());
    const auto wanted = sum_over(2, [](int r) { return values(r, kMatrix + kVector); });
    for (std::int64_t updates = 0; updates < 4; ++updates) {
      exchange->begin_step(updates);
      const at::Tensor bucket = values(group.rank(), kMatrix + kVector);
      exchange_all(*exchange, {bucket, at::zeros({kMatrix + kVector})});
      EXPECT_EQ(at::equal(bucket, wanted), updates < 2) << updates;
    }
  });
}

TEST(PowerSgd, ADroppedStepLeavesNothingBehind) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto exchange = make_exchange("powersgd", {group, comm::Order::any, 1, 2, 0, 7});
    exchange->adopt(contents());
    exchange_all(*exchange,
                 {values(group.rank(), kMatrix + kVector), at::zeros({kMatrix + kVector})});
    exchange->drop_step();
    const at::Tensor nothing = at::zeros({kMatrix + kVector});
    exchange_all(*exchange, {nothing, at::zeros({kMatrix + kVector})});
    EXPECT_TRUE(at::equal(nothing, at::zeros({kMatrix + kVector})));
  });
}

TEST(PowerSgd, AStepThatIsNotFiniteSpoilsNoOther) {
  test::run_ranks(2, [](comm::Group& group) {
    const auto exchange = make_exchange("powersgd", {group, comm::Order::any, 1, 2, 0, 7});
    exchange->adopt(contents());
    const at::Tensor broken = values(group.rank(), kMatrix + kVector);
    if (group.rank() == 1) broken[5] = std::numeric_limits<float>::infinity();
    exchange_all(*exchange, {broken, at::zeros({kMatrix + kVector})});
    EXPECT_FALSE(at::isfinite(broken).all().item<bool>()) << "the step must be seen to be skipped";
    const at::Tensor nothing = at::zeros({kMatrix + kVector});
    exchange_all(*exchange, {nothing, at::zeros({kMatrix + kVector})});
    EXPECT_TRUE(at::equal(nothing, at::zeros({kMatrix + kVector})));
    const auto of_rank = [](int r) {
      return at::cat(
          {at::outer(values(r, kRows, 1), values(r, kColumns, 2)).view(-1), at::zeros({kVector})});
    };
    const at::Tensor bucket = of_rank(group.rank());
    exchange_all(*exchange, {bucket, at::zeros({kMatrix + kVector})});
    EXPECT_LT(relative(bucket, sum_over(2, of_rank)), 1e-5);
  });
}

TEST(Exchange, AnUnknownNameIsRefused) {
  const auto group = comm::make_fake_group(0, 2);
  EXPECT_THROW((void)make_exchange("fp8", {*group}), UsageError);
}

TEST(OrthonormalRows, SpanWhatTheRowsSpanAndDropWhatIsNotNew) {
  at::Tensor rows = values(0, 4 * 300).view({4, 300}).clone();
  rows[2].copy_(rows[0] * 3.0F + rows[1]);
  const at::Tensor before = rows.clone();
  make_rows_orthonormal(rows);
  const at::Tensor products = at::mm(rows, rows.t());
  const at::Tensor expected = at::diag(at::tensor({1.0F, 1.0F, 0.0F, 1.0F}));
  EXPECT_TRUE(at::allclose(products, expected, 1e-5, 1e-5)) << products;
  EXPECT_TRUE(at::allclose(at::mm(at::mm(before, rows.t()), rows), before, 1e-3, 1e-3));
}

}  // namespace
}  // namespace lockstep::parallel
