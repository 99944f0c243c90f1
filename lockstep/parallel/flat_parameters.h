// The parameters of one rank in flat buffers: fp32 masters, compute weights and moments, with the
// module's own tensors as views into them.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/group.h"
#include "lockstep/config/run_config.h"
#include "lockstep/model/model.h"
#include "lockstep/optim/flat_layout.h"

namespace lockstep::parallel {

/// One parameter's tensors, all of its shape and strides, all views of flat buffers.
struct ParameterViews {
  std::string name;
  std::vector<std::string> aliases;
  at::Tensor variable;  // the module's own tensor
  at::Tensor master;    // fp32
  at::Tensor moment1;   // undefined when the optimizer has none
  at::Tensor moment2;
  bool low_precision = false;  // variable is a copy of master in the compute type
};

class FlatParameters {
 public:
  /// Moves the parameters into flat buffers: values stay, tensors become views, trainable
  /// floating-point tensors only. With bf16 or fp16 compute, all but keep_fp32 ones become that,
  /// also those that are not trained.
  FlatParameters(const std::vector<model::NamedTensor>& parameters,
                 const config::OptimizerSection& optimizer, config::Dtype compute);

  [[nodiscard]] const std::vector<ParameterViews>& views() const { return views_; }
  [[nodiscard]] const optim::FlatLayout& layout() const { return layout_; }
  [[nodiscard]] std::vector<std::int64_t> counts() const;

  /// What was frozen when this was made must stay so: it has no place in the flat buffers.
  /// \throws UsageError (LS-7006) naming every parameter that is to be trained now.
  void check_frozen() const;
  /// Collective: every rank takes rank 0's masters, and its parameters that are not trained.
  void broadcast(comm::Group& group);
  /// Writes the masters into the compute weights, after masters were loaded.
  void refresh_compute();

  /// Masters and moments, whole.
  [[nodiscard]] std::vector<at::Tensor> states() const;
  [[nodiscard]] float* master() { return master_.mutable_data_ptr<float>(); }
  [[nodiscard]] float* moment1();  // null when the optimizer has none
  [[nodiscard]] float* moment2();
  [[nodiscard]] std::uint16_t* compute();  // bits of bf16 or fp16; null with fp32 compute
  [[nodiscard]] config::Dtype compute_type() const { return compute_type_; }

 private:
  [[nodiscard]] at::ScalarType compute_scalar_type() const;
  void freeze(const model::NamedTensor& parameter);
  [[nodiscard]] at::Tensor view_of(const at::Tensor& flat, std::size_t index) const;

  config::Dtype compute_type_;
  optim::FlatLayout layout_;
  std::vector<ParameterViews> views_;
  std::vector<model::NamedTensor> frozen_;  // the module's parameters that are not trained
  std::vector<std::vector<std::int64_t>> sizes_;
  std::vector<std::vector<std::int64_t>> strides_;
  at::Tensor master_;
  at::Tensor compute_;
  at::Tensor moment1_;
  at::Tensor moment2_;
};

}  // namespace lockstep::parallel
