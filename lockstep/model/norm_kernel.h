// The vector loops under batch_norm.h: plain arrays, one thread, the same bits on every instruction
// set. T is float, Bf16Bits or Fp16Bits.
#pragma once
#include <cstdint>

#include "lockstep/model/vector_element.h"

namespace lockstep::model {

/// How the elements of the channels lie: `outer` times [channels, inner]. Channels-last memory has
/// rows of all channels (inner 1), the usual one planes of a channel (inner = pixels). Every loop
/// below takes the outer ones [begin, end) of arrays that have this shape.
struct ChannelShape {
  std::int64_t outer = 0;
  std::int64_t channels = 0;
  std::int64_t inner = 1;
};

// T is float, Bf16Bits or Fp16Bits; what is computed is fp32, sums of many elements fp64.

/// Of each channel: the mean, and M2, the sum of squares around it. The sums are taken around the
/// mean of the first quarter, so that nothing cancels (Chan, Golub and LeVeque 1983, "Algorithms
/// for computing the sample variance", section 3). \pre begin < end.
template <typename T>
void channel_moments(const T* x, const ChannelShape& shape, std::int64_t begin, std::int64_t end,
                     double* mean, double* m2);

/// Values of one per channel that the loops over elements take.
struct NormTerms {
  const float* mean = nullptr;
  const float* scale = nullptr;  // weight / standard deviation
  const float* bias = nullptr;
};

/// out = (x - mean) scale + bias.
template <typename T>
void normalise(const T* x, T* out, const ChannelShape& shape, std::int64_t begin, std::int64_t end,
               const NormTerms& terms);

/// Of each channel: sum = sum of grad, product = sum of grad (x - mean).
template <typename T>
void gradient_sums(const T* x, const T* grad, const ChannelShape& shape, std::int64_t begin,
                   std::int64_t end, const float* mean, double* sum, double* product);

struct NormGradientTerms {
  const float* mean = nullptr;
  const float* scale = nullptr;  // of the gradient
  const float* slope = nullptr;  // of x - mean
  const float* offset = nullptr;
};

/// out = grad scale + (x - mean) slope + offset.
template <typename T>
void norm_input_gradient(const T* x, const T* grad, T* out, const ChannelShape& shape,
                         std::int64_t begin, std::int64_t end, const NormGradientTerms& terms);

}  // namespace lockstep::model
