#include "lockstep/model/norm_kernel.h"

#include <algorithm>
#include <type_traits>
#include <vector>

// Compiled like vector_kernel.cpp: plain loops, put into the entry point of an instruction set
// before they become vectors, and no fused multiply-add.
namespace lockstep::model {
namespace {

constexpr std::int64_t kBlockElements = 8192;  // fit the first-level cache
constexpr std::int64_t kFewestRows = 8;        // of a block
constexpr std::int64_t kMostRows = 256;        // added up in fp32 before fp64 takes over
constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kSpan = 4096;  // elements of a plane that the lanes add up in fp32

std::int64_t block_rows(std::int64_t channels) {
  return std::clamp(kBlockElements / channels, kFewestRows, kMostRows);
}

/// tile(width, c) for channels [c, c + width) until all are done; `width` is a constant.
template <typename Tile>
LOCKSTEP_INLINE void over_tiles(std::int64_t channels, Tile tile) {
  std::int64_t c = 0;
  for (; c + 32 <= channels; c += 32) tile(std::integral_constant<std::int64_t, 32>(), c);
  for (; c + 16 <= channels; c += 16) tile(std::integral_constant<std::int64_t, 16>(), c);
  for (; c + 8 <= channels; c += 8) tile(std::integral_constant<std::int64_t, 8>(), c);
  for (; c < channels; ++c) tile(std::integral_constant<std::int64_t, 1>(), c);
}

/// tile(width, c, row, rows) over blocks of rows.
template <typename Tile>
LOCKSTEP_INLINE void over_blocks(const ChannelShape& shape, std::int64_t begin, std::int64_t end,
                                 Tile tile) {
  const std::int64_t step = block_rows(shape.channels);
  for (std::int64_t row = begin; row < end; row += step) {
    const std::int64_t rows = std::min(step, end - row);
    over_tiles(
        shape.channels, [&](auto width, std::int64_t c)
                            __attribute__((always_inline)) { tile(width, c, row, rows); });
  }
}

// Pairs of numbers that are added up: of an element x, of x and its gradient.

template <typename T>
struct MomentPair {
  LOCKSTEP_INLINE static void add(const T* x, const T* /*grad*/, std::int64_t i, float centre,
                                  float& first, float& second) {
    const float d = value_of(x[i]) - centre;
    first += d;
    second += d * d;
  }
};

template <typename T>
struct GradientPair {
  LOCKSTEP_INLINE static void add(const T* x, const T* grad, std::int64_t i, float centre,
                                  float& first, float& second) {
    const float g = value_of(grad[i]);
    first += g;
    second += g * (value_of(x[i]) - centre);
  }
};

template <std::int64_t kWidth, typename Pair, typename T>
LOCKSTEP_INLINE void add_tile(const T* __restrict x, const T* __restrict grad, std::int64_t rows,
                              std::int64_t stride, const float* __restrict centre,
                              double* __restrict first, double* __restrict second) {
  float firsts[kWidth] = {};
  float seconds[kWidth] = {};
  float centres[kWidth];
  for (std::int64_t j = 0; j < kWidth; ++j) centres[j] = centre[j];
  for (std::int64_t r = 0; r < rows; ++r) {
    LOCKSTEP_KEEP_LOOP
    for (std::int64_t j = 0; j < kWidth; ++j) {
      Pair::add(x + r * stride, grad + r * stride, j, centres[j], firsts[j], seconds[j]);
    }
  }
  for (std::int64_t j = 0; j < kWidth; ++j) first[j] += firsts[j];
  for (std::int64_t j = 0; j < kWidth; ++j) second[j] += seconds[j];
}

/// Sums of one channel over planes, in lanes.
template <typename Pair, typename T>
struct LaneSums {
  float firsts[kLanes] = {};
  float seconds[kLanes] = {};
  std::int64_t taken = 0;
  double first = 0;
  double second = 0;

  LOCKSTEP_INLINE void add(const T* __restrict x, const T* __restrict grad, std::int64_t count,
                           float centre) {
    for (std::int64_t begin = 0; begin < count; begin += kSpan) {
      const std::int64_t end = std::min(count, begin + kSpan);
      add_span(x + begin, grad + begin, end - begin, centre);
      taken += end - begin;
      if (taken >= kSpan) flush();
    }
  }
  LOCKSTEP_INLINE void flush() {
    first += total(firsts);
    second += total(seconds);
    for (float& lane : firsts) lane = 0;
    for (float& lane : seconds) lane = 0;
    taken = 0;
  }

 private:
  LOCKSTEP_INLINE static double total(const float* lanes) {
    float few[4];
    for (std::int64_t j = 0; j < 4; ++j) {
      few[j] = (lanes[j] + lanes[4 + j]) + (lanes[8 + j] + lanes[12 + j]);
    }
    return static_cast<double>((few[0] + few[1]) + (few[2] + few[3]));
  }
  LOCKSTEP_INLINE void add_span(const T* __restrict x, const T* __restrict grad, std::int64_t count,
                                float centre) {
    float a[kLanes];
    float b[kLanes];
    for (std::int64_t j = 0; j < kLanes; ++j) a[j] = firsts[j];
    for (std::int64_t j = 0; j < kLanes; ++j) b[j] = seconds[j];
    std::int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      LOCKSTEP_KEEP_LOOP
      for (std::int64_t j = 0; j < kLanes; ++j) Pair::add(x + i, grad + i, j, centre, a[j], b[j]);
    }
    for (; i < count; ++i) Pair::add(x, grad, i, centre, a[0], b[0]);
    for (std::int64_t j = 0; j < kLanes; ++j) firsts[j] = a[j];
    for (std::int64_t j = 0; j < kLanes; ++j) seconds[j] = b[j];
  }
};

/// first[c] and second[c] += the pairs of the first `span` elements of each plane.
template <typename Pair, typename T>
LOCKSTEP_INLINE void add_pairs(const T* x, const T* grad, const ChannelShape& shape,
                               std::int64_t span, std::int64_t begin, std::int64_t end,
                               const float* centre, double* first, double* second) {
  if (shape.inner == 1) {
    over_blocks(
        shape, begin, end,
        [&](auto width, std::int64_t c, std::int64_t row, std::int64_t rows)
            __attribute__((always_inline)) {
              const std::int64_t at = row * shape.channels + c;
              add_tile<decltype(width)::value, Pair>(x + at, grad + at, rows, shape.channels,
                                                     centre + c, first + c, second + c);
            });
    return;
  }
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    LaneSums<Pair, T> sums;
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t at = (o * shape.channels + c) * shape.inner;
      sums.add(x + at, grad + at, span, centre[c]);
    }
    sums.flush();
    first[c] += sums.first;
    second[c] += sums.second;
  }
}

/// The mean of a first quarter, rounded: what the sums are taken around. `sum` and `work` are [C].
template <typename T>
LOCKSTEP_INLINE void rough_mean(const T* x, const ChannelShape& shape, std::int64_t begin,
                                std::int64_t end, double* sum, double* work, float* mean) {
  std::fill_n(mean, shape.channels, 0.0F);
  std::fill_n(sum, shape.channels, 0.0);
  const bool many = end - begin >= 4 || shape.inner == 1;
  const std::int64_t outer = many ? (end - begin + 3) / 4 : end - begin;
  const std::int64_t span = many ? shape.inner : (shape.inner + 3) / 4;
  add_pairs<MomentPair<T>>(x, x, shape, span, begin, begin + outer, mean, sum, work);
  const auto count = static_cast<double>(outer * span);
  for (std::int64_t c = 0; c < shape.channels; ++c) mean[c] = static_cast<float>(sum[c] / count);
}

template <typename T>
LOCKSTEP_INLINE void moments_loop(const T* x, const ChannelShape& shape, std::int64_t begin,
                                  std::int64_t end, double* mean, double* m2, float* centre) {
  rough_mean(x, shape, begin, end, mean, m2, centre);
  std::fill_n(mean, shape.channels, 0.0);
  std::fill_n(m2, shape.channels, 0.0);
  add_pairs<MomentPair<T>>(x, x, shape, shape.inner, begin, end, centre, mean, m2);
  const auto count = static_cast<double>((end - begin) * shape.inner);
  for (std::int64_t c = 0; c < shape.channels; ++c) {
    const double around = mean[c] / count;
    const double squares = m2[c] - mean[c] * around;
    m2[c] = squares < 0 ? 0 : squares;  // a NaN stays one
    mean[c] = static_cast<double>(centre[c]) + around;
  }
}

template <typename T>
LOCKSTEP_INLINE void sums_loop(const T* x, const T* grad, const ChannelShape& shape,
                               std::int64_t begin, std::int64_t end, const float* mean, double* sum,
                               double* product) {
  std::fill_n(sum, shape.channels, 0.0);
  std::fill_n(product, shape.channels, 0.0);
  add_pairs<GradientPair<T>>(x, grad, shape, shape.inner, begin, end, mean, sum, product);
}

template <std::int64_t kWidth, typename T>
LOCKSTEP_INLINE void normalise_tile(const T* __restrict x, T* __restrict out, std::int64_t rows,
                                    std::int64_t stride, const NormTerms& terms, std::int64_t c) {
  float mean[kWidth];
  float scale[kWidth];
  float bias[kWidth];
  for (std::int64_t j = 0; j < kWidth; ++j) mean[j] = terms.mean[c + j];
  for (std::int64_t j = 0; j < kWidth; ++j) scale[j] = terms.scale[c + j];
  for (std::int64_t j = 0; j < kWidth; ++j) bias[j] = terms.bias[c + j];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < kWidth; ++j) {
      put((value_of(x[r * stride + j]) - mean[j]) * scale[j] + bias[j], out + r * stride + j);
    }
  }
}

template <typename T>
LOCKSTEP_INLINE void normalise_span(const T* __restrict x, T* __restrict out, std::int64_t count,
                                    float mean, float scale, float bias) {
  for (std::int64_t i = 0; i < count; ++i) put((value_of(x[i]) - mean) * scale + bias, out + i);
}

template <typename T>
LOCKSTEP_INLINE void normalise_loop(const T* x, T* out, const ChannelShape& shape,
                                    std::int64_t begin, std::int64_t end, const NormTerms& terms) {
  if (shape.inner == 1) {
    over_blocks(
        shape, begin, end,
        [&](auto width, std::int64_t c, std::int64_t row,
            std::int64_t rows) __attribute__((always_inline)) {
          const std::int64_t at = row * shape.channels + c;
          normalise_tile<decltype(width)::value>(x + at, out + at, rows, shape.channels, terms, c);
        });
    return;
  }
  for (std::int64_t p = begin * shape.channels; p < end * shape.channels; ++p) {
    const std::int64_t c = p % shape.channels;
    normalise_span(x + p * shape.inner, out + p * shape.inner, shape.inner, terms.mean[c],
                   terms.scale[c], terms.bias[c]);
  }
}

template <std::int64_t kWidth, typename T>
LOCKSTEP_INLINE void gradient_tile(const T* __restrict x, const T* __restrict grad,
                                   T* __restrict out, std::int64_t rows, std::int64_t stride,
                                   const NormGradientTerms& terms, std::int64_t c) {
  float mean[kWidth];
  float scale[kWidth];
  float slope[kWidth];
  float offset[kWidth];
  for (std::int64_t j = 0; j < kWidth; ++j) mean[j] = terms.mean[c + j];
  for (std::int64_t j = 0; j < kWidth; ++j) scale[j] = terms.scale[c + j];
  for (std::int64_t j = 0; j < kWidth; ++j) slope[j] = terms.slope[c + j];
  for (std::int64_t j = 0; j < kWidth; ++j) offset[j] = terms.offset[c + j];
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t j = 0; j < kWidth; ++j) {
      const std::int64_t i = r * stride + j;
      const float along = (value_of(x[i]) - mean[j]) * slope[j] + offset[j];
      put(value_of(grad[i]) * scale[j] + along, out + i);
    }
  }
}

template <typename T>
LOCKSTEP_INLINE void gradient_span(const T* __restrict x, const T* __restrict grad,
                                   T* __restrict out, std::int64_t count, float mean, float scale,
                                   float slope, float offset) {
  for (std::int64_t i = 0; i < count; ++i) {
    put(value_of(grad[i]) * scale + ((value_of(x[i]) - mean) * slope + offset), out + i);
  }
}

template <typename T>
LOCKSTEP_INLINE void gradient_loop(const T* x, const T* grad, T* out, const ChannelShape& shape,
                                   std::int64_t begin, std::int64_t end,
                                   const NormGradientTerms& terms) {
  if (shape.inner == 1) {
    over_blocks(
        shape, begin, end,
        [&](auto width, std::int64_t c, std::int64_t row, std::int64_t rows)
            __attribute__((always_inline)) {
              const std::int64_t at = row * shape.channels + c;
              gradient_tile<decltype(width)::value>(x + at, grad + at, out + at, rows,
                                                    shape.channels, terms, c);
            });
    return;
  }
  for (std::int64_t p = begin * shape.channels; p < end * shape.channels; ++p) {
    const std::int64_t c = p % shape.channels;
    const std::int64_t at = p * shape.inner;
    gradient_span(x + at, grad + at, out + at, shape.inner, terms.mean[c], terms.scale[c],
                  terms.slope[c], terms.offset[c]);
  }
}

/// One set of entry points per instruction set, chosen once; all give the same bits.
template <typename T>
struct Kernels {
  void (*moments)(const T*, const ChannelShape&, std::int64_t, std::int64_t, double*, double*,
                  float*);
  void (*normalise)(const T*, T*, const ChannelShape&, std::int64_t, std::int64_t,
                    const NormTerms&);
  void (*sums)(const T*, const T*, const ChannelShape&, std::int64_t, std::int64_t, const float*,
               double*, double*);
  void (*gradient)(const T*, const T*, T*, const ChannelShape&, std::int64_t, std::int64_t,
                   const NormGradientTerms&);
};

#define LOCKSTEP_ENTRY_POINTS(name, target)                                                       \
  template <typename T>                                                                           \
  struct name {                                                                                   \
    target static void moments(const T* x, const ChannelShape& shape, std::int64_t b,             \
                               std::int64_t e, double* mean, double* m2, float* centre) {         \
      moments_loop(x, shape, b, e, mean, m2, centre);                                             \
    }                                                                                             \
    target static void normalise(const T* x, T* out, const ChannelShape& shape, std::int64_t b,   \
                                 std::int64_t e, const NormTerms& terms) {                        \
      normalise_loop(x, out, shape, b, e, terms);                                                 \
    }                                                                                             \
    target static void sums(const T* x, const T* grad, const ChannelShape& shape, std::int64_t b, \
                            std::int64_t e, const float* mean, double* sum, double* product) {    \
      sums_loop(x, grad, shape, b, e, mean, sum, product);                                        \
    }                                                                                             \
    target static void gradient(const T* x, const T* grad, T* out, const ChannelShape& shape,     \
                                std::int64_t b, std::int64_t e, const NormGradientTerms& terms) { \
      gradient_loop(x, grad, out, shape, b, e, terms);                                            \
    }                                                                                             \
    static constexpr Kernels<T> table() { return {moments, normalise, sums, gradient}; }          \
  }

LOCKSTEP_ENTRY_POINTS(Portable, );
LOCKSTEP_ENTRY_POINTS(Avx2, LOCKSTEP_AVX2);
LOCKSTEP_ENTRY_POINTS(Avx512, LOCKSTEP_AVX512);

template <typename T>
const Kernels<T>& kernels() {
  static const Kernels<T> chosen = best_table<Portable<T>, Avx2<T>, Avx512<T>>();
  return chosen;
}

}  // namespace

template <typename T>
void channel_moments(const T* x, const ChannelShape& shape, std::int64_t begin, std::int64_t end,
                     double* mean, double* m2) {
  std::vector<float> centre(static_cast<std::size_t>(shape.channels));
  kernels<T>().moments(x, shape, begin, end, mean, m2, centre.data());
}

template <typename T>
void normalise(const T* x, T* out, const ChannelShape& shape, std::int64_t begin, std::int64_t end,
               const NormTerms& terms) {
  kernels<T>().normalise(x, out, shape, begin, end, terms);
}

template <typename T>
void gradient_sums(const T* x, const T* grad, const ChannelShape& shape, std::int64_t begin,
                   std::int64_t end, const float* mean, double* sum, double* product) {
  kernels<T>().sums(x, grad, shape, begin, end, mean, sum, product);
}

template <typename T>
void norm_input_gradient(const T* x, const T* grad, T* out, const ChannelShape& shape,
                         std::int64_t begin, std::int64_t end, const NormGradientTerms& terms) {
  kernels<T>().gradient(x, grad, out, shape, begin, end, terms);
}

#define LOCKSTEP_INSTANTIATE(T)                                                                    \
  template void channel_moments(const T*, const ChannelShape&, std::int64_t, std::int64_t,         \
                                double*, double*);                                                 \
  template void normalise(const T*, T*, const ChannelShape&, std::int64_t, std::int64_t,           \
                          const NormTerms&);                                                       \
  template void gradient_sums(const T*, const T*, const ChannelShape&, std::int64_t, std::int64_t, \
                              const float*, double*, double*);                                     \
  template void norm_input_gradient(const T*, const T*, T*, const ChannelShape&, std::int64_t,     \
                                    std::int64_t, const NormGradientTerms&)

LOCKSTEP_INSTANTIATE(float);
LOCKSTEP_INSTANTIATE(Bf16Bits);
LOCKSTEP_INSTANTIATE(Fp16Bits);

}  // namespace lockstep::model
