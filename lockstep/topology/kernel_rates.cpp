#include "lockstep/topology/kernel_rates.h"

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

constexpr auto kKernels = std::to_array<KernelInfo>({
    {Kernel::linear, "linear", "rows, outputs, inputs", true},
    {Kernel::convolution_3x3, "convolution_3x3", "pixels, outputs, inputs", true},
    {Kernel::convolution_1x1, "convolution_1x1", "pixels, outputs, inputs", true},
    {Kernel::attention, "attention", "tokens, samples x heads, width", true},
    {Kernel::layer_norm, "layer_norm", "rows, width"},
    {Kernel::batch_norm, "batch_norm", "pixels, channels"},
    {Kernel::loss, "loss", "rows, classes"},
    {Kernel::embedding, "embedding", "rows, width"},
    {Kernel::gelu, "gelu", "elements"},
    {Kernel::relu, "relu", "elements"},
    {Kernel::sum, "sum", "elements"},
    {Kernel::dropout, "dropout", "elements"},
    {Kernel::adamw, "adamw", "elements"},
    {Kernel::sgd, "sgd", "elements"},
    {Kernel::momentum, "momentum", "elements"},
    {Kernel::norm, "norm", "elements"},
    {Kernel::copy, "copy", "elements"},
    {Kernel::step, "step", "blocks"},
    {Kernel::gpt_step, "gpt_step", "models", false, true},
    {Kernel::resnet_step, "resnet_step", "models", false, true},
});

using Sizes = std::array<double, 3>;

double work_of(Kernel kernel, const Sizes& size) {
  const double product = size[0] * size[1] * size[2];
  return kernel == Kernel::attention ? size[0] * product : product;
}

/// The two values of an axis around `wanted`, and how far it lies between them in logarithms.
struct Between {
  std::array<double, 2> value{};
  double share = 0;  // of the second
};

Between between(const std::vector<double>& axis, double wanted) {
  const auto above = std::lower_bound(axis.begin(), axis.end(), wanted);
  if (above == axis.begin()) return {{axis.front(), axis.front()}, 0};
  if (above == axis.end()) return {{axis.back(), axis.back()}, 0};
  const double low = *(above - 1);
  return {{low, *above}, std::log(wanted / low) / std::log(*above / low)};
}

double distance(const Sizes& a, const Sizes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double step = std::log(a[i] / b[i]);
    sum += step * step;
  }
  return sum;
}

const KernelPoint& nearest(std::span<const KernelPoint> points, const Sizes& size) {
  return *std::min_element(points.begin(), points.end(),
                           [&](const KernelPoint& a, const KernelPoint& b) {
                             return distance(a.size, size) < distance(b.size, size);
                           });
}

/// Sums of logarithms of seconds for each unit of work.
struct LogRates {
  double forward = 0;
  double backward = 0;
  double backward_first = 0;
  void add(const KernelPoint& point, double weight) {
    const double work = work_of(point.kernel, point.size);
    const auto log_of = [&](double seconds) {
      return weight * std::log(std::max(seconds, 1e-12) / work);
    };
    forward += log_of(point.forward_s);
    backward += log_of(point.backward_s);
    backward_first += log_of(point.backward_first_s);
  }
};

/// Which of several measurements stands for so crowded so many ranks: see points_of().
template <typename Point>
class Choice {
 public:
  Choice(double crowding, int ranks) : crowding_(crowding), ranks_(ranks) {}

  void offer(const Point& point, double crowding) {
    // Smaller is better, in this order: not too crowded, as crowded, not too many, as many.
    const std::array<double, 4> now{crowding > crowding_ ? crowding : 0, -crowding,
                                    point.ranks > ranks_ ? point.ranks : 0.0,
                                    -static_cast<double>(point.ranks)};
    if (best_ != nullptr && now >= rank_of_best_) return;
    best_ = &point;
    rank_of_best_ = now;
  }
  [[nodiscard]] const Point* best() const { return best_; }

 private:
  double crowding_;
  int ranks_;
  const Point* best_ = nullptr;
  std::array<double, 4> rank_of_best_{};
};

/// \param points of one number of ranks, by ascending bytes; at least one.
double between_bytes(const std::vector<ExchangePoint>& points, double bytes) {
  if (points.size() == 1 || bytes <= static_cast<double>(points.front().bytes)) {
    return points.front().seconds;
  }
  std::size_t above = 1;
  while (above + 1 < points.size() && static_cast<double>(points[above].bytes) < bytes) ++above;
  const ExchangePoint& low = points[above - 1];
  const ExchangePoint& high = points[above];
  const double slope = std::max(0.0, high.seconds - low.seconds) /
                       std::max(1.0, static_cast<double>(high.bytes - low.bytes));
  return low.seconds + slope * (bytes - static_cast<double>(low.bytes));
}

}  // namespace

double flops_of(const KernelPoint& point) {
  if (!info_of(point.kernel).multiplies) return 0;
  switch (point.kernel) {
    case Kernel::attention:
      return 4 * work_of(point.kernel, point.size);
    case Kernel::convolution_3x3:
      return 2 * 9 * work_of(point.kernel, point.size);
    default:
      return 2 * work_of(point.kernel, point.size);
  }
}

std::span<const KernelInfo> kernels() { return kKernels; }

const KernelInfo& info_of(Kernel kernel) { return kKernels.at(static_cast<std::size_t>(kernel)); }

std::optional<Kernel> find_kernel(std::string_view name) {
  for (const KernelInfo& info : kKernels) {
    if (info.name == name) return info.kernel;
  }
  return std::nullopt;
}

KernelTable::KernelTable(std::span<const KernelPoint> points) {
  for (const KernelPoint& point : points) {
    auto table = std::find_if(tables_.begin(), tables_.end(), [&](const Axes& axes) {
      return axes.kernel == point.kernel && axes.type == point.type;
    });
    if (table == tables_.end()) {
      constexpr KernelSeconds kLongest{1e9, 1e9, 1e9};
      table = tables_.insert(tables_.end(), Axes{point.kernel, point.type, {}, {}, kLongest});
    }
    table->points.push_back(point);
    table->least = {std::min(table->least.forward_s, point.forward_s),
                    std::min(table->least.backward_s, point.backward_s),
                    std::min(table->least.backward_first_s, point.backward_first_s)};
    for (std::size_t i = 0; i < point.size.size(); ++i) {
      std::vector<double>& axis = table->axis[i];
      const auto place = std::lower_bound(axis.begin(), axis.end(), point.size[i]);
      if (place == axis.end() || *place != point.size[i]) axis.insert(place, point.size[i]);
    }
  }
}

const KernelTable::Axes* KernelTable::find(Kernel kernel, config::Dtype type) const {
  const Axes* otherwise = nullptr;
  for (const Axes& table : tables_) {
    if (table.kernel != kernel) continue;
    if (table.type == type) return &table;
    if (table.type == config::Dtype::fp32) otherwise = &table;
  }
  return otherwise;
}

KernelSeconds KernelTable::seconds(Kernel kernel, config::Dtype type, double m, double n,
                                   double k) const {
  const Axes* table = find(kernel, type);
  LOCKSTEP_CHECK(table != nullptr, "no measured point of " + std::string(info_of(kernel).name));
  const Sizes wanted{m, n, k};
  std::array<Between, 3> around;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    around[i] = between(table->axis[i], wanted[i]);
  }
  LogRates rates;
  for (std::size_t corner = 0; corner < 8; ++corner) {
    Sizes size{};
    double weight = 1;
    for (std::size_t i = 0; i < size.size(); ++i) {
      const std::size_t side = corner >> i & 1;
      size[i] = around[i].value[side];
      weight *= side == 1 ? around[i].share : 1 - around[i].share;
    }
    if (weight > 0) rates.add(nearest(table->points, size), weight);
  }
  const double work = work_of(kernel, wanted);
  return {std::max(table->least.forward_s, work * std::exp(rates.forward)),
          std::max(table->least.backward_s, work * std::exp(rates.backward)),
          std::max(table->least.backward_first_s, work * std::exp(rates.backward_first))};
}

double ranks_a_core(int ranks, int cores) {
  return std::max(1.0, static_cast<double>(ranks) / std::max(1, cores));
}

const KernelPoints* points_of(const KernelRates& rates, Kernel kernel, int ranks, int cores) {
  const double crowding = ranks_a_core(ranks, cores);
  Choice<KernelPoints> choice(crowding, ranks);
  for (const KernelPoints& busy : rates.busy) {
    const bool has = std::any_of(busy.points.begin(), busy.points.end(),
                                 [&](const KernelPoint& point) { return point.kernel == kernel; });
    if (has) choice.offer(busy, ranks_a_core(busy.ranks, rates.cores));
  }
  return choice.best();
}

double exchange_seconds(const KernelRates& rates, int ranks, int cores, double bytes) {
  if (ranks < 2) return 0;
  const double crowding = ranks_a_core(ranks, cores);
  Choice<ExchangePoint> choice(crowding, ranks);
  for (const ExchangePoint& point : rates.exchange) {
    choice.offer(point, ranks_a_core(point.ranks, rates.cores));
  }
  if (choice.best() == nullptr) return 0;
  const int measured = choice.best()->ranks;
  std::vector<ExchangePoint> points;
  for (const ExchangePoint& point : rates.exchange) {
    if (point.ranks == measured) points.push_back(point);
  }
  std::sort(points.begin(), points.end(),
            [](const ExchangePoint& a, const ExchangePoint& b) { return a.bytes < b.bytes; });
  const double longer = std::max(1.0, crowding / ranks_a_core(measured, rates.cores));
  return longer * between_bytes(points, bytes);
}

}  // namespace lockstep
