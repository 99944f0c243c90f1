#include "lockstep/planner/error_bands.h"

#include <gtest/gtest.h>

#include "lockstep/model/stats/known_models.h"
#include "lockstep/planner/cluster_spec.h"

namespace lockstep::planner {
namespace {

double band_of(const char* cluster) {
  const ReadCluster read = read_cluster(cluster, "--cluster");
  ClusterJob job;
  job.architecture = model::known_model("gpt2-xl").architecture;
  job.machine = read.machine;
  job.network_named = read.network_named;
  job.layout.data = static_cast<int>(read.machine->devices);
  return time_band(job).share;
}

TEST(ErrorBands, AreWiderWhereNobodyNamedTheNetwork) {
  EXPECT_EQ(band_of("8xA100-80G*4"), kNetworkUnknown);
  EXPECT_EQ(band_of("8xA100-80G*4@100 GbE"), kSourceLeftOut);
  EXPECT_EQ(band_of("8xA100-80G*4@HDR InfiniBand"), kSourceLeftOut) << "the usual one, by its name";
  EXPECT_EQ(band_of("8xA100-80G"), kSourceLeftOut) << "none is used";
  EXPECT_EQ(band_of("8xV100-32G*4@100 GbE"), kDeviceLeftOut);
}

}  // namespace
}  // namespace lockstep::planner
