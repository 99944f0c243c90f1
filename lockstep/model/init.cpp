#include "lockstep/model/init.h"

#include <ATen/ATen.h>

#include <cmath>

#include "lockstep/base/rng.h"
#include "lockstep/model/draw_kernel.h"

namespace lockstep::model {
namespace {

/// Two uniforms from one 64-bit draw: u in (0, 1], v in [0, 1).
struct Uniforms {
  explicit Uniforms(std::uint64_t bits)
      : u((static_cast<float>(bits >> 40) + 1.0F) * 0x1p-24F),
        v(static_cast<float>((bits >> 8) & 0xffffffU) * 0x1p-24F) {}
  float u;
  float v;
};

}  // namespace

at::Tensor Initializer::kaiming_uniform(at::IntArrayRef shape, std::int64_t fan_in) {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(fan_in)));
  at::Tensor tensor = at::empty(shape, at::kFloat);
  Rng rng(mix(seed_, drawn_++));
  float* out = tensor.mutable_data_ptr<float>();
  const std::int64_t count = tensor.numel();
  for (std::int64_t i = 0; i < count; i += 2) {
    const Uniforms pair(rng.next_u64());
    out[i] = (2 * pair.u - 1) * bound;
    if (i + 1 < count) out[i + 1] = (2 * pair.v - 1) * bound;
  }
  return tensor;
}

at::Tensor Initializer::normal(at::IntArrayRef shape, double std_deviation) {
  at::Tensor tensor = at::empty(shape, at::kFloat);
  draw_normals(mix(seed_, drawn_++), static_cast<float>(std_deviation),
               tensor.mutable_data_ptr<float>(), tensor.numel());
  return tensor;
}

at::Tensor Initializer::constant(at::IntArrayRef shape, double value) {
  return at::full(shape, value, at::kFloat);
}

}  // namespace lockstep::model
