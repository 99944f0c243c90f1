// The time model takes every model, device and kind of layout that there is.
#include <gtest/gtest.h>

#include <cmath>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/known_models.h"
#include "lockstep/parallel/cost/step_time.h"

namespace lockstep::parallel {
namespace {

std::vector<Layout> layouts() {
  Layout data;
  data.data = 16;
  Layout sharded = data;
  sharded.zero = 3;
  sharded.recompute = Recompute::full;
  sharded.flash_attention = true;
  Layout three = data;
  three.tensor = 2;
  three.pipeline = 2;
  three.accumulation = 4;
  three.sequence = true;
  three.recompute = Recompute::selective;
  Layout split = data;
  split.expert = 4;
  split.context = 2;
  return {data, sharded, three, split};
}

TEST(AnyModelTime, IsFiniteAndNeverBeatsThePeak) {
  for (const model::KnownModel& known : model::known_models()) {
    const model::ModelStats stats = model::architecture_stats(known.architecture);
    for (const DeviceModel& device : device_models()) {
      for (const Layout& layout : layouts()) {
        const TimePrediction time =
            predict_time(stats, layout, *find_recipe("bf16"),
                         usual_machine(device, layout.devices()), usual_stack(layout.tensor > 1));
        EXPECT_TRUE(std::isfinite(time.step_s)) << known.architecture.name << " " << device.name;
        EXPECT_GT(time.step_s, 0) << known.architecture.name << " " << device.name;
        EXPECT_LT(time.mfu, 1) << known.architecture.name << " " << device.name;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::parallel
