#include "lockstep/parallel/cost/measured_operators.h"

#include <string>

namespace lockstep::parallel {
namespace {

using model::OperatorKind;
using model::OperatorStats;

/// All operators of one micro-batch.
class OperatorSum {
 public:
  OperatorSum(const KernelTable& table, config::Dtype type, double samples)
      : table_(table), type_(type), samples_(samples) {}

  void add(const model::BlockStats& block, bool reads_data) {
    for (const OperatorStats& op : block.operators) {
      add(op, reads_data && &op == &block.operators.front());
    }
  }

  [[nodiscard]] double forward_s() const { return forward_s_; }
  [[nodiscard]] double backward_s() const { return backward_s_; }

 private:
  static bool is_relu(const OperatorStats& op) { return op.name.find("relu") != std::string::npos; }

  void add(const OperatorStats& op, bool first) {
    switch (op.kind) {
      case OperatorKind::product:
        return add(Kernel::linear, first, op.m * samples_, op.n, op.k);
      case OperatorKind::convolution:
        return add(op.kernel_area > 1 ? Kernel::convolution_3x3 : Kernel::convolution_1x1, first,
                   op.m * samples_, op.n, op.k / op.kernel_area);
      case OperatorKind::attention:
        return add(Kernel::attention, first, op.m, op.times * samples_, op.k);
      case OperatorKind::norm:
        return add(is_of_images(op) ? Kernel::batch_norm : Kernel::layer_norm, first,
                   op.m * samples_, op.n);
      case OperatorKind::loss:
        return add(Kernel::loss, first, op.m * samples_, op.n);
      case OperatorKind::embedding:
        return add(Kernel::embedding, first, op.m * samples_, op.n);
      case OperatorKind::dropout:
        return add(Kernel::dropout, first, op.moved_elements / 2 * samples_);
      case OperatorKind::pointwise:
      case OperatorKind::router:
        return add_pointwise(op, first);
    }
  }

  void add_pointwise(const OperatorStats& op, bool first) {
    const double moved = op.moved_elements * samples_;
    if (is_relu(op)) return add(Kernel::relu, first, moved / 2);
    if (op.name.find("activation") != std::string::npos) return add(Kernel::gelu, first, moved / 2);
    if (op.name == "pool") return add(Kernel::copy, first, moved / 2);
    add(Kernel::sum, first, moved / 3);
  }

  static bool is_of_images(const OperatorStats& op) {
    return op.name.starts_with("bn") || op.name.ends_with("_bn");
  }

  void add(Kernel kernel, bool first, double m, double n = 1, double k = 1) {
    const KernelSeconds seconds = table_.seconds(kernel, type_, m, n, k);
    forward_s_ += seconds.forward_s;
    backward_s_ += first ? seconds.backward_first_s : seconds.backward_s;
  }

  const KernelTable& table_;
  config::Dtype type_;
  double samples_;
  double forward_s_ = 0;
  double backward_s_ = 0;
};

}  // namespace

KernelSeconds operator_seconds(const KernelTable& table, config::Dtype type,
                               const model::ModelStats& model, double samples) {
  OperatorSum sum(table, type, samples);
  for (std::size_t i = 0; i < model.blocks.size(); ++i) {
    sum.add(model.blocks[i], /*reads_data=*/i == 0);
  }
  return {sum.forward_s(), sum.backward_s(), sum.backward_s()};
}

}  // namespace lockstep::parallel
