// Fuzz target: whatever the bytes, a config.json gives a model that can be counted, or all that is
// wrong with it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/hugging_face.h"
#include "tests/fuzz/verdict.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  namespace model = lockstep::model;
  const std::string_view text(reinterpret_cast<const char*>(bytes), count);
  try {
    model::Architecture architecture = model::read_hugging_face(text, "config.json").architecture;
    architecture.layers = 1;  // the others are like it, and there may be thousands
    architecture.decoder_layers = architecture.decoder_layers > 0 ? 1 : 0;
    for (std::int64_t& blocks : architecture.stage_blocks) blocks = 1;
    if (architecture.stage_blocks.size() > 100) return 0;
    const model::ModelStats stats = model::architecture_stats(architecture);
    LOCKSTEP_CHECK(stats.parameters() > 0, "a model without parameters");
    LOCKSTEP_CHECK(stats.forward_flops_per_sample() > 0, "a model that computes nothing");
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::UsageError& error) {
    LOCKSTEP_CHECK(!error.problems().empty(), "refused without a reason");
  }
  return 0;
}
