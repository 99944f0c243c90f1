#include "lockstep/planner/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"
#include "lockstep/parallel/cost/check_layout.h"
#include "lockstep/parallel/cost/memory_testing.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::Offload;
using parallel::PipelineSchedule;
using parallel::Recompute;

ClusterJob job_of(std::string_view model, std::string_view device, std::int64_t devices,
                  std::int64_t sequence = 0) {
  ClusterJob job;
  job.architecture = model::known_model(model).architecture;
  job.model = model::architecture_stats(job.architecture, sequence);
  job.recipe = parallel::find_recipe("bf16");
  job.machine = usual_machine(*find_device(device), devices);
  return job;
}

SearchResult search(const ClusterJob& job, std::int64_t global_batch) {
  SearchLimits limits;
  limits.global_batch = global_batch;
  return search_layouts(job, limits);
}

/// "tensor 16: 16 does not divide 40 heads"; empty where there is none.
std::string rejection(const SearchResult& result, std::string_view what) {
  for (const RejectedLayouts& kind : result.rejected) {
    if (kind.what == what) return kind.because;
  }
  return "";
}

double seconds_of(const ClusterJob& job, const Layout& layout) {
  return parallel::predict_time(job.model, layout, *job.recipe, *job.machine,
                                parallel::usual_stack(layout))
      .step_s;
}

void expect_possible(const ClusterJob& job, const SearchResult& result, std::int64_t batch) {
  for (const RankedLayout& row : result.ranked) {
    EXPECT_TRUE(parallel::check_layout(
                    {row.layout, &job.model, &job.architecture, job.machine->devices, batch})
                    .empty())
        << row.flags;
    EXPECT_LE(row.memory.total(), job.machine->device.memory_bytes) << row.flags;
    EXPECT_DOUBLE_EQ(row.time.step_s, seconds_of(job, row.layout)) << row.flags;
    EXPECT_FALSE(row.why.empty());
  }
}

Layout published_gpt3(int data, std::int64_t global_batch) {
  Layout layout;  // arXiv:2205.05198, table 3: 175B
  layout.data = data;
  layout.tensor = 8;
  layout.sequence = true;
  layout.pipeline = 8;
  layout.chunks = 3;
  layout.schedule = PipelineSchedule::interleaved;
  layout.accumulation = global_batch / data;
  layout.recompute = Recompute::selective;
  return layout;
}

TEST(Search, SplitsGpt3AsThoseWhoTrainedIt) {
  const ClusterJob job = job_of("gpt-3-175b", "A100-80G", 1024, 2048);
  const auto begin = std::chrono::steady_clock::now();
  const SearchResult result = search(job, 1536);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::cout << result.considered << " layouts in " << took.count() << " s\n";
  EXPECT_LT(took.count(), 10);
  EXPECT_GT(result.considered, 5000);
  ASSERT_EQ(result.ranked.size(), 8U);
  const RankedLayout& best = result.ranked.front();
  EXPECT_GE(best.layout.tensor, 4);
  EXPECT_GT(best.layout.pipeline, 1);
  EXPECT_NEAR(best.time.step_s / seconds_of(job, published_gpt3(16, 1536)), 1, 0.1);
  expect_possible(job, result, 1536);
  EXPECT_NE(rejection(result, "tensor 2").find("more: "), std::string::npos);
  EXPECT_NE(rejection(result, "schedule gpipe").find("does not fit"), std::string::npos);
  const SearchResult again = search(job, 1536);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(again.ranked[i].flags, result.ranked[i].flags);
}

TEST(Search, IsNearTheBestThatWasMeasured) {
  const ClusterJob job = job_of("gpt-3-175b", "A100-80G", 64, 2048);
  const SearchResult result = search(job, 64);
  ASSERT_FALSE(result.ranked.empty());
  EXPECT_NEAR(result.ranked.front().time.step_s / 13.75, 1, 0.1);  // arXiv:2205.05198, table 5
  expect_possible(job, result, 64);
}

TEST(Search, LeavesASmallModelToDataParallelism) {
  const SearchResult result = search(job_of("gpt2", "A100-80G", 8), 256);
  ASSERT_FALSE(result.ranked.empty());
  EXPECT_EQ(result.ranked.front().flags, "--data 8 --micro-batch 32 --accumulation 1");
  EXPECT_EQ(rejection(result, "tensor 8"), "8 does not divide 12 heads");
}

TEST(Search, SharesOrOffloadsStatesThatOneDeviceCannotHold) {
  const SearchResult alone = search(job_of("gpt2-xl", "RTX4090-24G", 1), 8);
  ASSERT_FALSE(alone.ranked.empty());
  EXPECT_EQ(alone.ranked.front().layout.offload_optimizer, Offload::cpu);
  EXPECT_NE(rejection(alone, "offload-optimizer none").find("most of it optimizer"),
            std::string::npos);
  const ClusterJob eight = job_of("gpt2-xl", "RTX4090-24G", 8);
  const SearchResult shared = search(eight, 8);
  ASSERT_FALSE(shared.ranked.empty());
  EXPECT_GE(shared.ranked.front().layout.zero, 1) << shared.ranked.front().flags;
  EXPECT_EQ(shared.ranked.front().layout.offload_optimizer, Offload::none);
  expect_possible(eight, shared, 8);
}

TEST(Search, GoesFurtherOnlyWhereNothingElseFits) {
  const SearchResult host = search(job_of("gpt-3-175b", "V100-32G", 1, 2048), 1);
  ASSERT_FALSE(host.ranked.empty());
  EXPECT_EQ(host.ranked.front().layout.offload_parameters, Offload::cpu);
  EXPECT_GT(host.ranked.front().host_bytes, 2'000'000'000'000);
  EXPECT_NE(rejection(host, "parameters on the device").find("does not fit"), std::string::npos);

  ClusterJob small = job_of("gpt-3-175b", "A100-80G", 64, 2048);
  small.machine->device.memory_bytes = 3'000'000'000;
  const SearchResult far = search(small, 64);
  ASSERT_FALSE(far.ranked.empty());
  EXPECT_GT(far.ranked.front().layout.tensor, 8);
  EXPECT_NE(rejection(far, "parameters on the host").find("does not fit"), std::string::npos);

  small.machine->device.memory_bytes = 1'000'000'000;
  const SearchResult none = search(small, 64);
  EXPECT_TRUE(none.ranked.empty());
  ASSERT_TRUE(none.smallest.has_value());
  small.layout = *none.smallest;
  EXPECT_EQ(small.layout.devices(), 64);
  EXPECT_GT(plan_cluster(small).memory.device.total(), 1'000'000'000);
  EXPECT_EQ(rejection(none, "states on disks, tensor ranks across hosts").find("does not fit"), 0U);
}

TEST(Search, LooksAtSharedStatesInAPipelineOnlyWhereTheyAreOfUse) {
  const auto shares_in_pipeline = [](const SearchResult& result) {
    return std::any_of(result.ranked.begin(), result.ranked.end(), [](const RankedLayout& row) {
      return row.layout.pipeline > 1 && row.layout.zero > 1;
    });
  };
  EXPECT_FALSE(shares_in_pipeline(search(job_of("gpt2-xl", "A100-80G", 16), 64)));
  // 70 billion parameters on 64 devices of 24 GB: a stage of optimizer shares alone is too much.
  ClusterJob job = job_of("llama-2-70b", "RTX4090-24G", 64, 4096);
  job.layout.flash_attention = true;
  const SearchResult tight = search(job, 64);
  ASSERT_FALSE(tight.ranked.empty());
  expect_possible(job, tight, 64);
  EXPECT_TRUE(shares_in_pipeline(tight));
}

TEST(Search, DoesNotRejectWhatItTakes) {
  const SearchResult result = search(job_of("gpt-3-175b", "V100-32G", 2, 2048), 2);
  ASSERT_FALSE(result.ranked.empty());
  ASSERT_EQ(result.ranked.front().layout.offload_parameters, Offload::cpu);
  const Layout& best = result.ranked.front().layout;
  EXPECT_EQ(rejection(result, "zero " + std::to_string(best.zero)), "");
  EXPECT_EQ(rejection(result, "tensor " + std::to_string(best.tensor)), "");
  EXPECT_NE(rejection(result, "offload-optimizer none"), "");
}

TEST(Search, SaysWhichKindOfRejectionEachIs) {
  const SearchResult result = search(job_of("llama-2-13b", "A100-80G", 8), 12);
  for (const RejectedLayouts& row : result.rejected) {
    const bool large = row.because.find("does not fit") != std::string::npos;
    const bool slow = row.because.find(" against ") != std::string::npos;
    const Rejection kind = large  ? Rejection::too_large
                           : slow ? Rejection::not_better
                                  : Rejection::impossible;
    EXPECT_EQ(row.kind, kind) << row.what << ": " << row.because;
  }
}

TEST(Search, SaysWhichDegreesDoNotDivide) {
  ClusterJob job = job_of("llama-2-13b", "H100-80G", 64);
  job.machine->devices_per_host = 16;
  const SearchResult result = search(job, 96);
  EXPECT_EQ(rejection(result, "tensor 16"), "16 does not divide 40 heads");
  EXPECT_EQ(rejection(result, "data 64"), "64 ranks do not divide the batch of 96");
  EXPECT_EQ(rejection(result, "pipeline 64 or more"), "there are 40 layers to share");
}

TEST(Search, SharesLongSamplesAndExperts) {
  ClusterJob wide = job_of("llama-3-8b", "H100-80G", 64, 131'072);
  wide.layout.flash_attention = true;
  const SearchResult long_samples = search(wide, 32);
  ASSERT_FALSE(long_samples.ranked.empty());
  EXPECT_GT(long_samples.ranked.front().layout.context, 1);
  expect_possible(wide, long_samples, 32);
  const ClusterJob mixture = job_of("mixtral-8x7b", "H100-80G", 64);
  const SearchResult experts = search(mixture, 256);
  ASSERT_FALSE(experts.ranked.empty());
  EXPECT_TRUE(std::any_of(experts.ranked.begin(), experts.ranked.end(),
                          [](const RankedLayout& row) { return row.layout.expert > 1; }));
  expect_possible(mixture, experts, 256);
}

TEST(Search, FindsTheFewestDevicesThatAreQuickEnough) {
  ClusterJob job = job_of("gpt2-xl", "A100-80G", 64);
  job.tokens = 1e10;
  SearchLimits limits;
  limits.global_batch = 512;
  const auto train_s = [&](std::int64_t devices) {
    const SearchResult result = search(job_of("gpt2-xl", "A100-80G", devices), 512);
    const double samples = job.tokens / static_cast<double>(job.model.tokens_per_sample);
    return result.ranked.front().time.step_s * samples / 512;
  };
  limits.need_within_s = train_s(16) * 1.001;
  ASSERT_GT(train_s(8), limits.need_within_s);
  const SearchResult result = search_layouts(job, limits);
  ASSERT_TRUE(result.within.has_value());
  EXPECT_EQ(result.within->devices, 16);
  EXPECT_NEAR(result.within->train_s, train_s(16), 1e-6);
  limits.need_within_s = 60;
  const SearchResult never = search_layouts(job, limits);
  EXPECT_EQ(never.within->devices, 0);
  EXPECT_NEAR(never.within->train_s, train_s(64), 1e-6);
  EXPECT_NE(never.within->sentence.find("the shortest is"), std::string::npos);
}

/// All that eight devices can do with six layers, in no order and without pruning.
class EveryLayout {
 public:
  EveryLayout(const ClusterJob& job, std::int64_t batch) : job_(job), batch_(batch) {}

  [[nodiscard]] std::vector<Layout> all() && {
    for (const int tensor : {1, 2, 4, 8}) {
      for (const int pipeline : {1, 2, 4, 8}) {
        for (const int zero : {0, 1, 2, 3}) {
          Layout layout;
          layout.tensor = tensor;
          layout.pipeline = pipeline;
          layout.data = 8 / tensor / std::min(8 / tensor, pipeline);
          layout.zero = zero;
          add_savings(layout);
        }
      }
    }
    return std::move(all_);
  }

 private:
  void add_savings(Layout layout) {
    for (const bool sequence : {false, true}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const Offload offload : {Offload::none, Offload::cpu}) {
          layout.sequence = sequence;
          layout.recompute = recompute;
          layout.offload_optimizer = offload;
          for (layout.micro_batch = 1; layout.micro_batch <= batch_; ++layout.micro_batch) {
            layout.accumulation = batch_ / layout.data / layout.micro_batch;
            add_schedules(layout);
          }
        }
      }
    }
  }

  void add_schedules(Layout layout) {
    if (layout.pipeline == 1) {
      add(layout);
      return;
    }
    layout.schedule = PipelineSchedule::interleaved;
    for (layout.chunks = 2; layout.chunks <= 3; ++layout.chunks) add(layout);
    layout.chunks = 1;
    layout.schedule = PipelineSchedule::gpipe;
    add(layout);
    layout.schedule = PipelineSchedule::one_f_one_b;
    add(layout);
    add_cuts(layout, 6);
  }

  void add_cuts(Layout& layout, std::int64_t left) {
    if (static_cast<int>(layout.cuts.size()) == layout.pipeline) {
      add(layout);
      return;
    }
    for (std::int64_t layers = 1; layers <= left; ++layers) {
      layout.cuts.push_back(layers);
      add_cuts(layout, left - layers);
      layout.cuts.pop_back();
    }
  }

  void add(const Layout& layout) {
    if (parallel::check_layout({layout, &job_.model, &job_.architecture, 8, batch_}).empty()) {
      all_.push_back(layout);
    }
  }

  const ClusterJob& job_;
  std::int64_t batch_;
  std::vector<Layout> all_;
};

TEST(Search, NoLayoutOfASmallSpaceIsQuickerAndFits) {
  for (const auto& [width, device] :
       {std::pair(4096, "V100-32G"), std::pair(6144, "V100-32G"), std::pair(6144, "A100-40G")}) {
    ClusterJob job = job_of("gpt2", device, 8);
    job.architecture = parallel::testing::gpt(6, width, 32, 1024);
    job.model = model::architecture_stats(job.architecture, 1024);
    const SearchResult result = search(job, 16);
    ASSERT_FALSE(result.ranked.empty());
    const double best = result.ranked.front().time.step_s;
    const std::vector<Layout> all = EveryLayout(job, 16).all();
    EXPECT_GT(all.size(), 2000U);
    for (const Layout& layout : all) {
      // Within 2 % the simpler one is taken.
      if (seconds_of(job, layout) > best / 1.0201) continue;
      ClusterJob other = job;
      other.layout = layout;
      EXPECT_FALSE(plan_cluster(other).fits().value()) << seconds_of(job, layout) << " < " << best;
    }
  }
}

}  // namespace
}  // namespace lockstep::planner
