#include "lockstep/topology/kernel_grid.h"

namespace lockstep {
namespace {

using config::Dtype;

// Of a product, a convolution that is timed.
constexpr double kMostFlops = 1.1e9;
constexpr double kMostOfConvolution = 5e9;
constexpr double kPartOfFp16 = 0.25;  // computed as fp32: the largest say nothing new

using Axis = std::vector<double>;

void add_grid(std::vector<KernelPoint>& points, Kernel kernel, Dtype type, const Axis& m,
              const Axis& n, const Axis& k, double flops_a_unit, double most = kMostFlops) {
  for (const double rows : m) {
    for (const double columns : n) {
      for (const double inner : k) {
        const double part = type == Dtype::fp16 ? kPartOfFp16 : 1;
        if (flops_a_unit * rows * columns * inner > most * part) continue;
        points.push_back({kernel, type, {rows, columns, inner}});
      }
    }
  }
}

}  // namespace

std::vector<KernelPoint> points_to_time(Kernel kernel, Dtype type) {
  std::vector<KernelPoint> points;
  const Axis elements{256, 4096, 65536, 1 << 20, 1 << 23};
  switch (kernel) {
    case Kernel::linear:
      add_grid(points, kernel, type, {1, 16, 128, 1024, 8192}, {16, 64, 256, 1024},
               {16, 64, 256, 1024}, 2);
      add_grid(points, kernel, type, {128, 1024}, {16384}, {64, 256}, 2);
      break;
    case Kernel::convolution_3x3:
      add_grid(points, kernel, type, {64, 256, 1024, 8192}, {16, 64, 256, 512},
               {3, 16, 64, 256, 512}, 18, kMostOfConvolution);
      std::erase_if(points, [](const KernelPoint& point) {
        const double ratio = point.size[1] / point.size[2];
        return point.size[2] == 3 ? point.size[1] > 64 : ratio > 4 || ratio < 1;
      });
      break;
    case Kernel::convolution_1x1:
      add_grid(points, kernel, type, {64, 1024, 8192}, {32, 128, 512}, {16, 64, 256}, 2);
      std::erase_if(points,
                    [](const KernelPoint& point) { return point.size[1] != 2 * point.size[2]; });
      break;
    case Kernel::attention:
      add_grid(points, kernel, type, {16, 64, 256, 1024}, {4, 32}, {16, 64}, 400);
      break;
    case Kernel::layer_norm:
      add_grid(points, kernel, type, {16, 256, 4096}, {32, 256, 1024}, {1}, 1);
      break;
    case Kernel::batch_norm:
      add_grid(points, kernel, type, {256, 4096, 32768}, {16, 64, 512}, {1}, 1);
      break;
    case Kernel::loss:
      add_grid(points, kernel, type, {16, 256, 2048}, {10, 256, 4096, 50304}, {1}, 40);
      break;
    case Kernel::embedding:
      add_grid(points, kernel, type, {16, 256, 4096}, {32, 256, 1024}, {1}, 1);
      break;
    case Kernel::step:
      add_grid(points, kernel, type, {kTinyLayers.begin(), kTinyLayers.end()}, {1}, {1}, 1);
      break;
    case Kernel::gpt_step:
    case Kernel::resnet_step:
      points.push_back({kernel, type});
      break;
    case Kernel::norm:
    case Kernel::copy:
      if (type != Dtype::fp32) break;  // of gradients, which are in fp32
      [[fallthrough]];
    default:
      add_grid(points, kernel, type, elements, {1}, {1}, 1);
  }
  return points;
}

std::vector<KernelPoint> points_to_time(const KernelRequest& request) {
  std::vector<KernelPoint> points;
  for (const Kernel kernel : request.kernels) {
    for (const Dtype type : request.types) {
      auto more = points_to_time(kernel, type);
      if (request.few && more.size() > 2) more.erase(more.begin() + 2, more.end());
      points.insert(points.end(), more.begin(), more.end());
    }
  }
  return points;
}

}  // namespace lockstep
