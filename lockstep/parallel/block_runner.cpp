#include "lockstep/parallel/block_runner.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>

#include <mutex>

#include "lockstep/base/rng.h"

namespace lockstep::parallel {
namespace {

void seed_default_generator(const DrawKey& key, std::size_t block) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(mix(key.seed, static_cast<std::uint64_t>(key.step),
                                 static_cast<std::uint64_t>(key.leaf), block));
}

bool is_finite(const at::Tensor& output) {
  return !output.is_floating_point() || at::isfinite(output.detach()).all().item<bool>();
}

}  // namespace

at::Tensor BlockRunner::forward(at::Tensor input, const DrawKey& key) {
  first_not_finite_.reset();
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    model::Block& block = *blocks_[i];
    if (block.is_training() && block.draws_random()) seed_default_generator(key, i);
    input = block.forward(std::move(input));
    if (watched_ && !first_not_finite_ && !is_finite(input)) first_not_finite_ = i;
  }
  return input;
}

void BlockRunner::set_training(bool training) {
  for (const auto& block : blocks_) block->train(training);
}

}  // namespace lockstep::parallel
