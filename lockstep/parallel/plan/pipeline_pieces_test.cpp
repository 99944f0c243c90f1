#include "lockstep/parallel/plan/pipeline_pieces.h"

#include <gtest/gtest.h>

namespace lockstep::parallel {
namespace {

using Layers = std::vector<std::int64_t>;

TEST(PipelinePieces, AreEvenWithWhatIsLeftInTheMiddle) {
  Layout layout;
  EXPECT_EQ(layers_of_pieces(7, layout), Layers{7});
  layout.pipeline = 4;
  EXPECT_EQ(layers_of_pieces(8, layout), (Layers{2, 2, 2, 2}));
  EXPECT_EQ(layers_of_pieces(10, layout), (Layers{2, 3, 3, 2}));
  layout.chunks = 2;
  EXPECT_EQ(layers_of_pieces(8, layout), Layers(8, 1));
}

TEST(PipelinePieces, FollowTheCuts) {
  Layout layout;
  layout.pipeline = 2;
  layout.cuts = {3, 7};
  EXPECT_EQ(layers_of_pieces(10, layout), (Layers{3, 7}));
}

}  // namespace
}  // namespace lockstep::parallel
