#include "lockstep/parallel/plan/precision_recipe.h"

#include <algorithm>
#include <array>

#include "lockstep/base/nearest.h"

namespace lockstep::parallel {
namespace {

// name, summary, source, weights, gradients, main gradients, masters, moments, compute, reduce,
// casts
constexpr auto kRecipes = std::to_array<PrecisionRecipe>({
    {"fp32", "weights, gradients and Adam's moments in fp32", "Kingma and Ba 2015, arXiv:1412.6980",
     4, 4, 0, 0, 8, 4, 4},
    {"fp16", "fp16 weights and gradients beside fp32 masters and moments",
     "arXiv:1910.02054, section 3.1", 2, 2, 0, 4, 8, 2, 2},
    {"bf16", "bf16 weights and gradients beside fp32 masters and moments",
     "arXiv:1910.02054, section 3.1", 2, 2, 0, 4, 8, 2, 2},
    {"bf16-fp32grad", "bf16 weights beside fp32 gradients, masters and moments",
     "Megatron-Core, distributed optimizer: 18 B, 6 + 12/d shared by d ranks", 2, 4, 0, 4, 8, 2, 4},
    {"fp16-20", "fp16 weights and gradients beside fp32 gradients, masters and moments",
     "Megatron-Core, distributed optimizer: 20 B, 4 + 16/d shared by d ranks", 2, 2, 4, 4, 8, 2, 2},
    {"fp32-master-cast", "fp32 weights and moments, cast where they are used; no gradient is kept",
     "AI-Hypercomputer/maxtext#606", 4, 0, 0, 0, 8, 2, 4},
    {"amp", "fp32 weights, gradients and moments, products in 16 bits",
     "PyTorch: torch.amp, MixedPrecisionPolicy of fully_shard", 4, 4, 0, 0, 8, 2, 4, 2},
    {"bf16-only", "weights, gradients and moments in bf16",
     "meta-llama/llama-cookbook: pure_bf16 with AnyPrecisionAdamW", 2, 2, 0, 0, 4, 2, 2},
});

}  // namespace

std::span<const PrecisionRecipe> precision_recipes() { return kRecipes; }

const PrecisionRecipe* find_recipe(std::string_view name) {
  const auto* row =
      std::find_if(kRecipes.begin(), kRecipes.end(),
                   [&](const PrecisionRecipe& recipe) { return recipe.name == name; });
  return row == kRecipes.end() ? nullptr : row;
}

std::vector<Problem> check_recipe(std::string_view name, std::string_view where) {
  if (find_recipe(name) != nullptr) return {};
  std::vector<std::string_view> names;
  std::string all;
  for (const PrecisionRecipe& recipe : kRecipes) {
    names.push_back(recipe.name);
    if (!all.empty()) all += ", ";
    all += recipe.name;
  }
  return {{"LS-6101", std::string(where), "no way to store numbers is called " + std::string(name),
           did_you_mean(name, names, "one of " + all)}};
}

}  // namespace lockstep::parallel
