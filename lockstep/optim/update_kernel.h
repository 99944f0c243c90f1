// The vector loops under update.h. They take whole blocks only, so that every element goes through
// the same instructions; update.cpp pads what is left over.
#pragma once
#include <cstdint>

#include "lockstep/optim/update.h"

namespace lockstep::optim {

inline constexpr std::int64_t kBlockElements = 64;
inline constexpr int kNormLanes = 16;

enum class Rule : std::uint8_t { sgd, sgd_momentum, sgd_nesterov, adamw };

/// The constants of one step, rounded to fp32 once.
struct RuleConstants {
  float gradient_scale = 1;
  float lr = 0;                // sgd
  float weight_decay = 0;      // sgd: L2 factor
  float momentum = 0;          // sgd
  bool first = false;          // sgd: the first step starts the buffer, whatever it holds
  float decay = 1;             // adamw: 1 - lr x weight_decay
  float blend1 = 0;            // adamw: 1 - beta1
  float beta2 = 0;             // adamw
  float blend2 = 0;            // adamw: 1 - beta2
  float step_size = 0;         // adamw: lr / (1 - beta1^step)
  float root_correction2 = 1;  // adamw: sqrt(1 - beta2^step)
  float eps = 0;               // adamw
};

/// Updates view.count elements, a multiple of kBlockElements.
void update_blocks(Rule rule, const UpdateView& view, const RuleConstants& constants);

/// lanes[i % kNormLanes] += double(scale x gradient[i])^2; count is a multiple of kNormLanes.
void add_squares(double* lanes, const float* gradient, std::int64_t count, float scale);

void add_elements(float* into, const float* from, std::int64_t count);

/// As update.h's take_gradient. \returns the bits of the largest magnitude in `from`.
std::uint32_t take_elements(float* into, const float* from, std::int64_t count, float factor,
                            bool add);
std::uint32_t take_elements(float* into, const Fp16Bits* from, std::int64_t count, float factor,
                            bool add);

}  // namespace lockstep::optim
