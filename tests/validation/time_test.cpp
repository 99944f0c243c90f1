// The time model against published runs: the errors of docs/validation.md, what a source adds, and
// what one wrong row would do.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "lockstep/planner/error_bands.h"
#include "lockstep/planner/time_validation.h"
#include "tests/support/source_text.h"

namespace lockstep::planner {
namespace {

using test::source_text;

const std::vector<PublishedRow>& rows() {
  static const auto read = read_published_rows(source_text("tests/validation/published_runs.csv"));
  return read;
}

const std::vector<TimedRun>& runs() {
  static const std::vector<TimedRun> timed = timed_runs(rows());
  return timed;
}

TEST(PublishedTime, OfAllRunsThatCanBePredictedIsOffByThreePercentOnAverage) {
  ASSERT_EQ(runs().size(), 57U) << "66 rows, 8 formulas of memory, 1 at the limit of memory";
  const ErrorSummary errors = summary_of(runs(), TimeNumbers::of_tables());
  EXPECT_LE(errors.mean, 0.033);
  EXPECT_LE(errors.most, 0.12) << errors.worst;
}

TEST(PublishedTime, OfASourceThatWasLeftOutIsPredictedFromTheOthers) {
  for (const LeftOutSource& left : leave_each_source_out(runs())) {
    EXPECT_GT(left.errors.rows, 0) << left.source;
    EXPECT_LE(left.errors.mean, 0.065) << left.source;
    EXPECT_LE(left.errors.most, 0.16) << left.source << ": " << left.errors.worst;
  }
}

/// A constant that stands for an error is that error, rounded up to a per cent.
void expect_rounded_up(double stated, double is, const char* what) {
  EXPECT_LE(is, stated) << what;
  EXPECT_GT(is, stated - 0.011) << what;
}

TEST(PublishedTime, TheBandsThatPlansStateAreTheLargestErrorsOfTheirKind) {
  double source = 0;
  double device = 0;
  for (const LeftOutSource& left : leave_each_source_out(runs())) {
    source = std::max(source, left.errors.most);
  }
  for (const LeftOutSource& left : leave_each_device_out(runs())) {
    device = std::max(device, left.errors.most);
  }
  expect_rounded_up(kSourceLeftOut, source, "source");
  expect_rounded_up(kDeviceLeftOut, device, "device");
}

TEST(PublishedTime, AWrongRowDoesNotDrawItsOwnPredictionAfterIt) {
  for (const double factor : {1.3, 1 / 1.3}) {
    const MovedMost most = perturb_each(runs(), factor);
    EXPECT_LE(std::abs(most.moved), 0.05) << most.id << " times " << factor;
  }
}

TEST(PublishedTime, IsFittedInTheTables) {
  const auto tables = fitted_numbers(TimeNumbers::of_tables());
  const auto fitted = fitted_numbers(calibrate(runs()));
  ASSERT_EQ(tables.size(), fitted.size());
  for (std::size_t i = 0; i < tables.size(); ++i) {
    EXPECT_NEAR(tables[i].second / fitted[i].second, 1, 0.006)
        << tables[i].first << " should be " << fitted[i].second;
  }
}

TEST(PublishedTime, PlansDoNotSeeWhatWasMeasured) {
  const TimeNumbers numbers = TimeNumbers::of_tables();
  std::vector<PublishedRow> permuted = rows();
  for (const char* column : {"tok_s_dev", "tflops_dev", "mfu_pct", "iter_s", "mem_dev_GiB"}) {
    for (std::size_t i = 0; i < rows().size(); ++i) {
      permuted[i][column] = rows()[(i + 7) % rows().size()].at(column);
    }
  }
  for (const TimedRun& timed : runs()) {
    for (const PublishedRow& row : permuted) {
      if (row.at("id") != timed.run.id) continue;
      TimedRun again = timed;
      again.run = plan_of(row);
      EXPECT_EQ(predicted_s(again, numbers), predicted_s(timed, numbers)) << timed.run.id;
    }
  }
}

TEST(PublishedTime, IsWhatTheDocumentSays) {
  const std::string document = source_text("docs/validation.md");
  EXPECT_NE(document.find(time_validation(runs())), std::string::npos)
      << "build oracle_programs, run build/release/bin/oracles/time_of_runs and put its output "
         "between the time marks of docs/validation.md";
}

}  // namespace
}  // namespace lockstep::planner
