// How long the worker's own operators take on one core of a machine: tables of measured points, and
// what lies between them. `lockstep bench kernels` measures them, `plan --calibrate` keeps them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/config/run_config.h"

namespace lockstep {

/// The operators that are timed. Sizes: linear [m x k] x [k x n]; convolutions m pixels of the
/// output, n channels of it, k channels of the input; attention m tokens, n samples x heads, k
/// wide; norms m rows or pixels, n channels; loss m rows, n classes; embedding m rows, n wide; all
/// others m elements.
enum class Kernel : std::uint8_t {
  linear,
  convolution_3x3,
  convolution_1x1,
  attention,
  layer_norm,
  batch_norm,
  loss,
  embedding,
  gelu,
  relu,  // in place
  sum,   // in place
  dropout,
  adamw,  // with the copy in the compute type
  sgd,
  momentum,
  norm,  // of gradients
  copy,
  step,      // of a tiny MLP of m layers: what surrounds operators
  gpt_step,  // of reference_config(): what operators take inside a step
  resnet_step,
};

/// Names and sizes, in the order of the enumeration.
struct KernelInfo {
  Kernel kernel;
  std::string_view name;        // "linear"
  std::string_view sizes;       // what m, n and k are: "rows, outputs, inputs"
  bool multiplies = false;      // its rate is FLOP/s, else bytes/s
  bool may_be_missing = false;  // in files of before it was measured
};
[[nodiscard]] std::span<const KernelInfo> kernels();
[[nodiscard]] const KernelInfo& info_of(Kernel kernel);
[[nodiscard]] std::optional<Kernel> find_kernel(std::string_view name);

/// The MLP of Kernel::step: samples a rank, features everywhere but at its end, classes.
inline constexpr std::int64_t kTinyBatch = 16;
inline constexpr std::int64_t kTinyWidth = 64;
inline constexpr std::int64_t kTinyClasses = 2;
inline constexpr std::array<double, 2> kTinyLayers{2, 10};

/// One measured point, in seconds.
struct KernelPoint {
  Kernel kernel = Kernel::linear;
  config::Dtype type = config::Dtype::fp32;
  std::array<double, 3> size{1, 1, 1};  // m, n, k
  double forward_s = 0;
  double backward_s = 0;
  double backward_first_s = 0;  // where the input needs no gradient; as backward_s if unknown
  bool operator==(const KernelPoint&) const = default;
};

/// FLOPs of a point's forward; 0 where they do not count.
[[nodiscard]] double flops_of(const KernelPoint& point);

/// One all_reduce of gradients where they lie.
struct ExchangePoint {
  int ranks = 2;
  std::int64_t bytes = 0;
  double seconds = 0;
  bool operator==(const ExchangePoint&) const = default;
};

/// All points measured while so many ranks of one thread computed at once.
struct KernelPoints {
  int ranks = 1;
  std::vector<KernelPoint> points;
};

struct KernelRates {
  std::string source;  // "measured on this machine, 2026-11-30" | "of a typical core: ..."
  std::string cpu_model;
  int cores = 0;
  std::vector<KernelPoints> busy;  // by ascending ranks
  std::vector<ExchangePoint> exchange;
};

struct KernelSeconds {
  double forward_s = 0;
  double backward_s = 0;
  double backward_first_s = 0;
};

/// Seconds at any size: the measured seconds for each unit of work (m n k; of attention
/// m m n k), interpolated between
/// the nearest points in the logarithms of all three sizes. Beyond them the rate stays, and nothing
/// takes less than the quickest point. \pre there is a point of the kernel, of this type or of
/// fp32.
class KernelTable {
 public:
  KernelTable() = default;
  explicit KernelTable(std::span<const KernelPoint> points);

  [[nodiscard]] KernelSeconds seconds(Kernel kernel, config::Dtype type, double m, double n = 1,
                                      double k = 1) const;

 private:
  struct Axes {
    Kernel kernel = Kernel::linear;
    config::Dtype type = config::Dtype::fp32;
    std::vector<KernelPoint> points;
    std::array<std::vector<double>, 3> axis;  // ascending
    KernelSeconds least;                      // of all points
  };
  [[nodiscard]] const Axes* find(Kernel kernel, config::Dtype type) const;
  std::vector<Axes> tables_;
};

/// How many ranks a core has to compute for, at least 1.
[[nodiscard]] double ranks_a_core(int ranks, int cores);

/// Points of a kernel that hold for `ranks` on `cores`: measured as crowded (ranks_a_core()), or
/// else the nearest below; among those on as many ranks, or the next fewer. Null without any.
[[nodiscard]] const KernelPoints* points_of(const KernelRates& rates, Kernel kernel, int ranks,
                                            int cores);

/// Seconds of an all_reduce of `bytes` by `ranks` on `cores`, from points chosen in the same way:
/// between them and along the last two beyond; where ranks are more crowded than any that were
/// measured, as many times longer. 0 for one rank.
[[nodiscard]] double exchange_seconds(const KernelRates& rates, int ranks, int cores, double bytes);

/// What plans go by where nothing was measured: one core of an AMD EPYC (Zen 4).
[[nodiscard]] const KernelRates& typical_rates();

}  // namespace lockstep
