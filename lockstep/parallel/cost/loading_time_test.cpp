#include "lockstep/parallel/cost/loading_time.h"

#include <gtest/gtest.h>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"

namespace lockstep::parallel {
namespace {

TEST(LoadingTime, OfASampleIsWhatIsStored) {
  const auto bytes = [](const char* name) {
    const auto& known = model::known_model(name).architecture;
    return stored_sample_bytes(model::architecture_stats(known),
                               static_cast<double>(known.vocabulary));
  };
  EXPECT_EQ(bytes("gpt2"), 2 * 1024);        // 50,257 words
  EXPECT_EQ(bytes("llama-3-8b"), 4 * 8192);  // 128,256
  EXPECT_NEAR(bytes("resnet50"), 3 * 224 * 224, 8);
  EXPECT_EQ(bytes("dlrm"), 4 * 13 + 8 * 26 + 8);
}

TEST(LoadingTime, GoesByTheHostThatReadsMost) {
  Layout layout;
  layout.data = 16;
  layout.micro_batch = 32;
  Machine machine = usual_machine(*find_device("A100-80G"), 16);
  EXPECT_EQ(samples_of_host(layout, machine), 256);
  EXPECT_DOUBLE_EQ(loading_s({1e6, 1e9, 0}, layout, machine), 0.256);
  EXPECT_DOUBLE_EQ(loading_s({1e6, 1e9, 512}, layout, machine), 0.5) << "preparing takes longer";
  EXPECT_EQ(loading_s({1e6, 0, 0}, layout, machine), 0);
  EXPECT_DOUBLE_EQ(needed_bytes_per_s({1e6, 0, 0}, layout, machine, 0.1), 2.56e9);
  layout.data = 2;  // a stage of eight devices is one host: two ranks of four tensor ranks
  layout.tensor = 4;
  layout.pipeline = 2;
  EXPECT_EQ(samples_of_host(layout, machine), 64);
  layout.data = 1;  // half a host
  EXPECT_EQ(samples_of_host(layout, machine), 32);
  layout.data = 4;  // each rank lies in two hosts, and both read its samples
  layout.tensor = 16;
  layout.pipeline = 1;
  EXPECT_EQ(samples_of_host(layout, machine), 32);
  layout.data = 12;  // a host and a half: the whole one reads eight parts of twelve
  layout.tensor = 1;
  EXPECT_EQ(samples_of_host(layout, machine), 8 * 32);
}

}  // namespace
}  // namespace lockstep::parallel
