// Models and layouts that tests of memory share.
#pragma once
#include <cstdint>

#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/parallel/plan/layout.h"

namespace lockstep::parallel::testing {

inline constexpr double kGib = 1024.0 * 1024 * 1024;
inline constexpr double kMib = 1024.0 * 1024;

/// A GPT as Megatron trains it.
inline model::Architecture gpt(std::int64_t layers, std::int64_t width, std::int64_t heads,
                               std::int64_t sequence, std::int64_t vocabulary = 51'200) {
  model::Architecture a;
  a.layers = layers;
  a.width = width;
  a.heads = heads;
  a.kv_heads = heads;
  a.head_width = width / heads;
  a.feed_forward = 4 * width;
  a.vocabulary = vocabulary;
  a.max_positions = sequence;
  a.default_sequence = sequence;
  a.dropout = 0.1;
  return a;
}

inline model::Architecture llama_7b(std::int64_t sequence) {
  model::Architecture a = gpt(32, 4096, 32, sequence, 32'000);
  a.feed_forward = 11'008;
  a.gated = true;
  a.rms_norm = true;
  a.biased = false;
  a.tied = false;
  a.positions = model::Positions::rotary;
  a.dropout = 0;
  return a;
}

/// Two layers of eight experts, two of them for a token.
inline model::Architecture mixture() {
  model::Architecture a = gpt(2, 64, 4, 32, 128);
  a.biased = false;
  a.experts.experts = 8;
  a.experts.per_token = 2;
  a.experts.width = 256;
  return a;
}

inline Layout data_parallel(int data, int zero) {
  Layout layout;
  layout.data = data;
  layout.zero = zero;
  return layout;
}

}  // namespace lockstep::parallel::testing
