// A module of one's own, trained data-parallel: start it once per rank, as README.md shows.
#include <ATen/ATen.h>
#include <lockstep/base/error.h>
#include <lockstep/comm/world.h>
#include <lockstep/parallel/data_parallel.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cmath>
#include <utility>

namespace ls = lockstep;

struct Net : torch::nn::Module {
  torch::nn::Linear hidden{register_module("hidden", torch::nn::Linear(2, 64))};
  torch::nn::Linear out{register_module("out", torch::nn::Linear(64, 2))};
  at::Tensor forward(const at::Tensor& x) { return out(at::tanh(hidden(x))); }
};

// B points of two interleaved half circles, and which of the two each is on.
std::pair<at::Tensor, at::Tensor> two_moons(std::int64_t B) {
  const at::Tensor moon = at::randint(2, {B}), angle = at::rand({B}) * M_PI, sign = 1 - 2 * moon;
  const at::Tensor x = at::cos(angle) * sign + moon, y = at::sin(angle) * sign + 0.5 * moon;
  return {at::stack({x, y}, 1) + 0.1 * at::randn({B, 2}), moon.to(at::kLong)};
}

int main() try {
  const auto group = ls::comm::join_world();  // torchrun, lockstep, srun or mpirun; alone: one rank

  Net net;
  ls::parallel::DataParallelOptions options;
  options.optimizer.momentum = 0.9;
  ls::parallel::DataParallel replica(net, *group, options);  // all start from rank 0's weights

  at::manual_seed(100 + group->rank());  // each rank draws points of its own
  double mean_loss = 0;
  for (int step = 0; step < 300; ++step) {
    const auto [points, moons] = two_moons(64);
    mean_loss = replica.step(0.1, [&, &points = points, &moons = moons] {
      return ls::parallel::cross_entropy_sum(net.forward(points), moons);
    });
  }
  std::printf("rank %d of %d: loss %.17g\n", group->rank(), group->size(), mean_loss);
  return mean_loss < 0.1 ? 0 : 1;
} catch (const ls::Error& error) {  // what, where, what to do next; a lost peer, say
  std::fputs(ls::to_text(error.problems()).c_str(), stderr);
  return static_cast<int>(error.exit());
}
