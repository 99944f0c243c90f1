#include "lockstep/checkpoint/weights/optimizer_state.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "lockstep/checkpoint/names/name_map.h"

namespace lockstep::checkpoint {
namespace {

/// What a script calls the dict of its optimizer.
constexpr auto kFirsts = std::to_array<std::string_view>(
    {"optimizer", "optimizers", "optimizer_state", "optimizer_states", "optimizer_state_dict",
     "optim", "optims", "optim_state", "optim_state_dict"});
constexpr auto kLasts =
    std::to_array<std::string_view>({"exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer"});

bool is_among(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool is_optimizer_state(const StoredTensor& tensor) {
  if (!tensor.kind.empty()) return tensor.kind == "optimizer";
  const std::string_view name = tensor.name;
  if (!split_state_name(name).suffix.empty()) return true;
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view second = name.substr(dot + 1, name.find('.', dot + 1) - dot - 1);
  return is_among(kFirsts, name.substr(0, dot)) || is_among(kFirsts, second) ||
         is_among(kLasts, name.substr(name.rfind('.') + 1));
}

}  // namespace lockstep::checkpoint
