#include "lockstep/engine/scale_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

using testing::HasSubstr;

/// What the watch says over steps, '.' good and 'x' skipped, joined by '|'.
class Story {
 public:
  explicit Story(const optim::LossScaleOptions& options = {}) : scale_(options) {}
  std::string tell(const std::string& steps) {
    std::string said;
    for (const char step : steps) {
      scale_.update(step == '.');
      const std::string news = watch_.add(step != '.', scale_);
      if (!news.empty()) said += (said.empty() ? "" : "|") + news;
    }
    return said;
  }

 private:
  optim::LossScale scale_;
  ScaleWatch watch_;
};

TEST(ScaleWatch, ThreeSkipsAtTheStartAndOneNowAndThenAreNormal) {
  Story story;
  EXPECT_EQ(story.tell("xxx" + std::string(17, '.')), "");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(story.tell("x" + std::string(19, '.')), "");
}

TEST(ScaleWatch, TheFourthSkipInTwentyStepsIsToldOnce) {
  Story story;
  EXPECT_EQ(story.tell("xx.x..."), "");
  EXPECT_EQ(story.tell("x"),
            "4 of the last 8 steps overflowed in fp16, the loss scale is down to 4096");
  EXPECT_EQ(story.tell("xx.x"), "");
}

TEST(ScaleWatch, AfterAHundredGoodStepsItIsToldAnew) {
  Story story;
  EXPECT_NE(story.tell("xxxx"), "");
  EXPECT_EQ(story.tell(std::string(99, '.') + "xxxx"), "") << "not yet over";
  EXPECT_THAT(story.tell(std::string(100, '.') + "xxxx"), HasSubstr("4 of the last 4"));
}

TEST(ScaleWatch, TheMinimumIsToldWhenItIsReached) {
  optim::LossScaleOptions options;
  options.initial = 4;
  Story story(options);
  EXPECT_EQ(story.tell("x"), "");
  EXPECT_EQ(story.tell("xxx"), "the loss scale is at its minimum of 1");
}

TEST(ScaleWatch, AFixedScaleHasNoMinimum) {
  optim::LossScaleOptions options;
  options.fixed = 1024;
  Story story(options);
  EXPECT_EQ(story.tell("xxx"), "");
  EXPECT_THAT(story.tell("x"), HasSubstr("fixed at 1024"));
}

}  // namespace
}  // namespace lockstep::engine
