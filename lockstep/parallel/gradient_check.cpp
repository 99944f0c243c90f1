#include "lockstep/parallel/gradient_check.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "lockstep/memory/category.h"

namespace lockstep::parallel {
namespace {

constexpr double kFloorShare = 1e-3;  // of the root mean square of all gradients

at::Tensor generator_state() {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state);
}

struct Norms {
  double gradient = 0;    // squared, of the check's
  double difference = 0;  // squared
  std::int64_t count = 0;
};

/// \param sum in the order of `gradient`'s elements; undefined = all zero.
Norms norms_of(const at::Tensor& sum, std::span<const float> gradient) {
  Norms norms{0, 0, static_cast<std::int64_t>(gradient.size())};
  const float* own = sum.defined() ? sum.const_data_ptr<float>() : nullptr;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const double value = own == nullptr ? 0.0 : own[i];
    const double difference = gradient[i] - value;
    norms.gradient += value * value;
    norms.difference += difference * difference;
  }
  return norms;
}

}  // namespace

GradientCheck::GradientCheck(const FlatParameters& parameters, GradientReducer& reducer)
    : parameters_(parameters),
      reducer_(reducer),
      buffers_(reducer.buffers().copy()),
      generator_(generator_state()),
      sums_(parameters.views().size()) {}

GradientCheck::~GradientCheck() {
  reducer_.buffers().write(buffers_);
  set_generator_state(generator_);
}

void GradientCheck::begin_part() { reducer_.buffers().begin_micro_batch(); }

void GradientCheck::add(const at::Tensor& loss_sum) {
  const double scale = reducer_.loss_scale();
  std::vector<at::Tensor> variables;
  std::vector<std::size_t> which;
  for (std::size_t p = 0; p < parameters_.views().size(); ++p) {
    const at::Tensor& variable = parameters_.views()[p].variable;
    if (!variable.requires_grad()) continue;
    variables.push_back(variable);
    which.push_back(p);
  }
  const auto gradients = torch::autograd::grad(
      {loss_sum}, variables, {at::full_like(loss_sum, scale)}, /*retain_graph=*/std::nullopt,
      /*create_graph=*/false, /*allow_unused=*/true);
  const at::NoGradGuard no_grad;
  const memory::Scope scope(memory::Category::gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const at::Tensor dense = gradients[i].is_sparse() ? gradients[i].to_dense() : gradients[i];
    const at::Tensor& master = parameters_.views()[which[i]].master;
    at::Tensor& sum = sums_[which[i]];
    if (!sum.defined()) {
      sum = at::empty_strided(master.sizes(), master.strides(), master.options()).zero_();
    }
    sum.add_(dense.to(at::kFloat), 1 / scale);
  }
}

GradientDifference GradientCheck::worst() const {
  std::vector<Norms> norms;
  Norms all;
  for (std::size_t p = 0; p < sums_.size(); ++p) {
    norms.push_back(norms_of(sums_[p], reducer_.gradient(p)));
    all.gradient += norms.back().gradient;
    all.count += norms.back().count;
  }
  const double mean_square =
      all.gradient / static_cast<double>(std::max<std::int64_t>(1, all.count));
  GradientDifference worst;
  for (std::size_t p = 0; p < norms.size(); ++p) {
    const double floor = kFloorShare * std::sqrt(mean_square * static_cast<double>(norms[p].count));
    const double size = std::max(std::sqrt(norms[p].gradient), floor);
    const double difference = std::sqrt(norms[p].difference);
    const double relative = difference == 0 ? 0 : difference / size;
    const bool is_worse = !(relative <= worst.worst_relative) && !std::isnan(worst.worst_relative);
    if (p == 0 || is_worse) worst = {relative, parameters_.views()[p].name};
  }
  return worst;
}

}  // namespace lockstep::parallel
