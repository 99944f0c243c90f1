// How numbers are stored while a model trains with Adam, in bytes a parameter.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::parallel {

/// ZeRO stage 1 spreads main_gradients, masters and moments, stage 2 and gradients, stage 3 and
/// weights.
struct PrecisionRecipe {
  std::string_view name;      // as --precision
  std::string_view summary;   // "fp16 or bf16 beside fp32 masters, gradients in 16 bits"
  std::string_view source;    // who counts like this
  double weights = 2;         // the copy that is computed with, or that it is cast from
  double gradients = 2;       // as backward leaves them
  double main_gradients = 0;  // an fp32 copy of them, for the update
  double masters = 4;
  double moments = 8;  // Adam: two
  double compute = 2;  // of an activation
  double reduce = 2;   // of a gradient as it travels
  double casts = 0;    // of a 16-bit copy that lives from forward to backward
  [[nodiscard]] double states() const {
    return weights + gradients + main_gradients + masters + moments;
  }
};

[[nodiscard]] std::span<const PrecisionRecipe> precision_recipes();
/// Null when there is none of that name.
[[nodiscard]] const PrecisionRecipe* find_recipe(std::string_view name);
/// LS-6101 with the nearest name, when there is none of that name.
[[nodiscard]] std::vector<Problem> check_recipe(std::string_view name,
                                                std::string_view where = "--precision");

}  // namespace lockstep::parallel
