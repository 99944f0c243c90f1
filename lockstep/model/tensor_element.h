// From a CPU tensor to the plain arrays that the vector loops take.
#pragma once
#include <ATen/core/Tensor.h>

#include "lockstep/base/error.h"
#include "lockstep/model/vector_element.h"

namespace lockstep::model {

// The second argument chooses the type: float{}, Bf16Bits{} or Fp16Bits{}.
inline const Bf16Bits* data(const at::Tensor& t, Bf16Bits) {
  return reinterpret_cast<const Bf16Bits*>(t.const_data_ptr<at::BFloat16>());
}
inline const float* data(const at::Tensor& t, float) { return t.const_data_ptr<float>(); }
inline Bf16Bits* mutable_data(const at::Tensor& t, Bf16Bits) {
  return reinterpret_cast<Bf16Bits*>(t.mutable_data_ptr<at::BFloat16>());
}
inline float* mutable_data(const at::Tensor& t, float) { return t.mutable_data_ptr<float>(); }
inline const Fp16Bits* data(const at::Tensor& t, Fp16Bits) {
  return reinterpret_cast<const Fp16Bits*>(t.const_data_ptr<at::Half>());
}
inline Fp16Bits* mutable_data(const at::Tensor& t, Fp16Bits) {
  return reinterpret_cast<Fp16Bits*>(t.mutable_data_ptr<at::Half>());
}

/// Calls body with a value of the element type: float, Bf16Bits or Fp16Bits.
template <typename Body>
void by_element(const at::Tensor& tensor, Body body) {
  if (tensor.scalar_type() == at::kBFloat16) return body(Bf16Bits{});
  if (tensor.scalar_type() == at::kHalf) return body(Fp16Bits{});
  LOCKSTEP_CHECK(tensor.scalar_type() == at::kFloat, "an operator of ours takes fp32, bf16, fp16");
  body(float{});
}

}  // namespace lockstep::model
