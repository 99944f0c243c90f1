// One micro-batch, as a strategy receives it.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::data {

// B samples, T tokens, C planes, H W pixels, F features.
struct Batch {
  at::Tensor input;  // images [B,C,H,W] fp32 channels-last; features [B,F] fp32; tokens [B,T] int64
  at::Tensor target;         // classes [B] int64; next tokens [B,T] int64
  std::int64_t samples = 0;  // B; 0 = an empty part: joins every collective without work
  std::int64_t weight = 0;   // what the mean divides by: samples, or target tokens
};

}  // namespace lockstep::data
