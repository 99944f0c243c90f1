// Models and files for the tests of this folder.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/checkpoint/names/family_lists_testing.h"
#include "lockstep/checkpoint/weights/match_weights.h"
#include "lockstep/checkpoint/weights/read_fp32.h"

namespace lockstep::checkpoint {

/// The tensors of a list ("name DTYPE [shape]" lines) as a model wants them.
inline std::vector<WantedTensor> model_of(const std::string& list) {
  std::vector<WantedTensor> wanted;
  for (const std::string& line : split_list(list)) {
    StoredTensor tensor = parse_line(line);
    wanted.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  return wanted;
}

/// Our gpt: the head's matrix is the embedding.
inline std::vector<WantedTensor> tied_gpt() {
  std::vector<WantedTensor> wanted = model_of(kGpt2Ours);
  wanted.front().aliases = {"head.wte.weight"};
  return wanted;
}

/// As `source_of`, with something before every name.
inline std::unique_ptr<MemorySource> prefixed(const std::string& list, const std::string& prefix) {
  auto source = std::make_unique<MemorySource>();
  for (const std::string& line : split_list(list)) source->add(parse_line(prefix + line));
  return source;
}

/// The tensor's bits, whatever it is called here and there; nothing where it stays as initialised.
inline std::optional<std::vector<std::byte>> bits_of(const WeightsMatch& match,
                                                     std::size_t wanted) {
  const std::optional<NamedView>& view = match.views.at(wanted);
  if (!view) return std::nullopt;
  std::size_t count = 1;
  for (const std::int64_t dim : view->tensor.shape) count *= static_cast<std::size_t>(dim);
  std::vector<float> values(count);
  read_fp32(*match.source, *view, values);
  std::vector<std::byte> bytes(count * sizeof(float));
  if (count > 0) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// By the model's names.
inline std::map<std::string, std::vector<std::byte>> all_bits(
    const WeightsMatch& match, const std::vector<WantedTensor>& wanted) {
  std::map<std::string, std::vector<std::byte>> all;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (const auto bits = bits_of(match, i)) all[wanted[i].name] = *bits;
  }
  return all;
}

}  // namespace lockstep::checkpoint
