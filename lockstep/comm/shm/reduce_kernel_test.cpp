#include "lockstep/comm/shm/reduce_kernel.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace lockstep::comm::shm {
namespace {

constexpr std::size_t kCount = 1337;  // several tiles and an uneven end

/// The sets that this processor runs.
std::vector<const Kernels*> all_sets() {
  std::vector<const Kernels*> sets;
  for (const char* isa : {"portable", "avx2", "avx512"}) {
    if (const Kernels* set = kernels(isa)) sets.push_back(set);
  }
  return sets;
}

template <class T>
using Terms = std::vector<std::vector<T>>;

template <class T>
std::vector<T> reduced(const Kernels& set, ElementType type, Reduction reduction,
                       const Terms<T>& terms) {
  std::vector<const void*> pointers;
  for (const auto& term : terms) pointers.push_back(term.data());
  std::vector<T> out(terms.front().size());
  set.reduce(type, reduction)(out.data(), pointers.data(), static_cast<int>(terms.size()),
                              out.size());
  return out;
}

template <class T>
Terms<T> random_terms(int n, unsigned seed) {
  std::mt19937 random(seed);
  Terms<T> terms(static_cast<std::size_t>(n), std::vector<T>(kCount));
  for (auto& term : terms) {
    for (T& value : term) {
      if constexpr (std::is_floating_point_v<T>) {
        value = static_cast<T>(std::normal_distribution<double>()(random));
      } else {
        value = static_cast<T>(random());
      }
    }
  }
  return terms;
}

float tree(const Terms<float>& terms, std::size_t i, int first, int last) {
  if (last - first == 1) return terms[static_cast<std::size_t>(first)][i];
  const int middle = first + (last - first) / 2;
  return tree(terms, i, first, middle) + tree(terms, i, middle, last);
}

TEST(ReduceKernel, FloatSumsFollowTheBalancedTreeBitForBitOnEveryInstructionSet) {
  for (const Kernels* set : all_sets()) {
    for (int n = 1; n <= 9; ++n) {
      const auto terms = random_terms<float>(n, 1);
      const auto sums = reduced(*set, ElementType::f32, Reduction::sum, terms);
      for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(sums[i]),
                  std::bit_cast<std::uint32_t>(tree(terms, i, 0, n)))
            << set->isa << ", " << n << " terms, element " << i;
      }
    }
  }
}

TEST(ReduceKernel, IntegersWrapAndKeepTheirExtremes) {
  for (const Kernels* set : all_sets()) {
    const auto terms = random_terms<std::int64_t>(3, 2);
    const auto sums = reduced(*set, ElementType::i64, Reduction::sum, terms);
    const auto least = reduced(*set, ElementType::i64, Reduction::min, terms);
    const auto most = reduced(*set, ElementType::i64, Reduction::max, terms);
    const auto ands = reduced(*set, ElementType::i64, Reduction::bit_and, terms);
    const auto xors = reduced(*set, ElementType::i64, Reduction::bit_xor, terms);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto u = [&](std::size_t t) { return static_cast<std::uint64_t>(terms[t][i]); };
      EXPECT_EQ(static_cast<std::uint64_t>(sums[i]), u(0) + u(1) + u(2));
      EXPECT_EQ(least[i], std::min({terms[0][i], terms[1][i], terms[2][i]}));
      EXPECT_EQ(most[i], std::max({terms[0][i], terms[1][i], terms[2][i]}));
      EXPECT_EQ(ands[i], terms[0][i] & terms[1][i] & terms[2][i]);
      EXPECT_EQ(xors[i], terms[0][i] ^ terms[1][i] ^ terms[2][i]);
    }
  }
}

TEST(ReduceKernel, ProductsOfSmallIntegersWrapInTheirOwnType) {
  for (const Kernels* set : all_sets()) {
    const auto terms = random_terms<std::int16_t>(2, 3);
    const auto products = reduced(*set, ElementType::i16, Reduction::product, terms);
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto exact = std::int64_t{terms[0][i]} * terms[1][i];
      EXPECT_EQ(products[i], static_cast<std::int16_t>(exact & 0xffff));
    }
  }
}

TEST(ReduceKernel, BooleansAreAnyAndAll) {
  for (const Kernels* set : all_sets()) {
    const Terms<std::uint8_t> terms{{0, 0, 1, 1}, {0, 1, 0, 1}};
    using Row = std::vector<std::uint8_t>;
    EXPECT_EQ(reduced(*set, ElementType::boolean, Reduction::sum, terms), (Row{0, 1, 1, 1}));
    EXPECT_EQ(reduced(*set, ElementType::boolean, Reduction::product, terms), (Row{0, 0, 0, 1}));
    EXPECT_EQ(reduced(*set, ElementType::boolean, Reduction::bit_xor, terms), (Row{0, 1, 1, 0}));
  }
}

TEST(ReduceKernel, MeansDivideByTheNumberOfTerms) {
  for (const Kernels* set : all_sets()) {
    const auto terms = random_terms<double>(5, 4);
    const auto means = reduced(*set, ElementType::f64, Reduction::mean, terms);
    for (std::size_t i = 0; i < kCount; ++i) {
      double sum = 0;
      for (const auto& term : terms) sum += term[i];
      EXPECT_NEAR(means[i], sum / 5, 1e-14);
    }
  }
}

TEST(ReduceKernel, ANanOfAnyTermIsTheResultOfMinAndMax) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Kernels* set : all_sets()) {
    for (const Reduction reduction : {Reduction::min, Reduction::max}) {
      const Terms<float> terms{{nan, 1.0F}, {1.0F, nan}};
      for (const float value : reduced(*set, ElementType::f32, reduction, terms)) {
        EXPECT_TRUE(std::isnan(value)) << set->isa;
      }
    }
  }
}

// --- 16-bit floats: exhaustive where that is possible -----------------------------------------

float float_of_f16(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int fraction = bits & 0x3ff;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) {
    return fraction == 0 ? sign * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
}

TEST(ReduceKernel, EveryHalfPlusZeroIsItself) {
  Terms<std::uint16_t> terms{{}, std::vector<std::uint16_t>(65536, 0)};
  for (int bits = 0; bits < 65536; ++bits) terms[0].push_back(static_cast<std::uint16_t>(bits));
  for (const Kernels* set : all_sets()) {
    for (const ElementType type : {ElementType::f16, ElementType::bf16}) {
      const auto sums =
          reduced(*set, type, Reduction::max, Terms<std::uint16_t>{terms[0], terms[0]});
      for (std::size_t bits = 0; bits < 65536; ++bits) {
        const bool f16 = type == ElementType::f16;
        const bool nan = f16 ? (bits & 0x7fff) > 0x7c00 : (bits & 0x7fff) > 0x7f80;
        if (nan) continue;  // a NaN keeps being one, its payload does not matter
        ASSERT_EQ(sums[bits], bits) << set->isa << " " << name(type);
      }
    }
  }
}

TEST(ReduceKernel, HalfSumsAreFormedInFloatAndRoundedOnceToTheNearest) {
  std::mt19937 random(5);
  Terms<std::uint16_t> terms(4, std::vector<std::uint16_t>(kCount));
  for (auto& term : terms) {
    for (auto& bits : term)
      bits = static_cast<std::uint16_t>(random() % 0x7000 | (random() & 0x8000U));
  }
  for (const Kernels* set : all_sets()) {
    const auto sums = reduced(*set, ElementType::f16, Reduction::sum, terms);
    for (std::size_t i = 0; i < kCount; ++i) {
      const float exact = (float_of_f16(terms[0][i]) + float_of_f16(terms[1][i])) +
                          (float_of_f16(terms[2][i]) + float_of_f16(terms[3][i]));
      const float got = float_of_f16(sums[i]);
      const float below = float_of_f16(static_cast<std::uint16_t>(sums[i] - 1));
      const float above = float_of_f16(static_cast<std::uint16_t>(sums[i] + 1));
      if (!std::isfinite(got) || (sums[i] & 0x7fff) == 0) continue;
      EXPECT_LE(std::abs(got - exact), std::abs(above - exact)) << set->isa;
      EXPECT_LE(std::abs(got - exact), std::abs(below - exact)) << set->isa;
    }
  }
}

TEST(ReduceKernel, Bfloat16RoundsToNearestEvenAndKeepsNan) {
  const auto bits = [](float value) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
  };
  // 256 + 1 lies half way between 256 and 258 (8 bits of precision): the even one is 256.
  const Terms<std::uint16_t> terms{{bits(256.0F), bits(258.0F), 0x7fc0},
                                   {bits(1.0F), bits(1.0F), 0}};
  for (const Kernels* set : all_sets()) {
    const auto sums = reduced(*set, ElementType::bf16, Reduction::sum, terms);
    EXPECT_EQ(sums[0], bits(256.0F)) << set->isa;
    EXPECT_EQ(sums[1], bits(260.0F)) << set->isa;
    EXPECT_GT(sums[2] & 0x7fff, 0x7f80) << set->isa;
  }
}

TEST(ReduceKernel, OnlyDefinedReductionsHaveAFunction) {
  for (const Kernels* set : all_sets()) {
    for (int type = 0; type < 10; ++type) {
      for (int reduction = 0; reduction < 8; ++reduction) {
        const auto t = static_cast<ElementType>(type);
        const auto r = static_cast<Reduction>(reduction);
        EXPECT_EQ(set->reduce(t, r) != nullptr, is_defined(r, t)) << name(r) << " of " << name(t);
      }
    }
  }
}

TEST(ReduceKernel, StreamingCopiesEveryByteAndNoOther) {
  for (const Kernels* set : all_sets()) {
    for (const std::size_t offset : {0U, 1U, 63U}) {
      for (const std::size_t bytes : {0U, 1U, 64U, 200U, 4097U}) {
        std::string from(bytes, '\0');
        for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<char>(i * 7);
        std::string to(offset + bytes + 64, '#');
        set->copy_stream(to.data() + offset, from.data(), bytes);
        stream_fence();
        EXPECT_EQ(to.substr(offset, bytes), from);
        EXPECT_EQ(to.substr(0, offset), std::string(offset, '#'));
        EXPECT_EQ(to.substr(offset + bytes), std::string(64, '#'));
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::comm::shm
