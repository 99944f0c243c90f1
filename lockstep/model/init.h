// First values of parameters: drawn from (seed, order of construction) alone, so every rank and
// every thread count starts from the same numbers.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::model {

/// Makes fp32 parameters in the order the model is built; each has its own stream of draws.
class Initializer {
 public:
  explicit Initializer(std::uint64_t seed) : seed_(seed) {}

  /// Uniform in +-1/sqrt(fan_in): PyTorch's default of linear and convolution weights and biases
  /// (Kaiming-uniform with a = sqrt 5; He et al. 2015).
  [[nodiscard]] at::Tensor kaiming_uniform(at::IntArrayRef shape, std::int64_t fan_in);
  /// Normal with mean 0.
  [[nodiscard]] at::Tensor normal(at::IntArrayRef shape, double std_deviation);
  [[nodiscard]] static at::Tensor constant(at::IntArrayRef shape, double value);

 private:
  std::uint64_t seed_;
  std::uint64_t drawn_ = 0;  // parameters drawn so far: the key of the next stream
};

}  // namespace lockstep::model
