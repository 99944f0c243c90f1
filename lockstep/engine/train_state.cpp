#include "lockstep/engine/train_state.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <tuple>

#include "lockstep/base/error.h"
#include "lockstep/base/sha256.h"

namespace lockstep::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes are over little-endian bytes");

/// Entries by kind, then name: the order in which they were registered does not matter.
std::vector<const StateEntry*> sorted(const TrainState& state) {
  std::vector<const StateEntry*> entries;
  for (const StateEntry& entry : state.entries) entries.push_back(&entry);
  std::sort(entries.begin(), entries.end(), [](const StateEntry* a, const StateEntry* b) {
    return std::tie(a->kind, a->name) < std::tie(b->kind, b->name);
  });
  return entries;
}

/// Elements in logical order, whatever the strides.
void add_elements(Sha256& hash, const at::Tensor& tensor) {
  const at::Tensor whole = tensor.detach().cpu().contiguous();
  hash.add({static_cast<const std::byte*>(whole.const_data_ptr()), whole.nbytes()});
}

void add_number(Sha256& hash, std::int64_t number) {
  hash.add(std::as_bytes(std::span(&number, 1)));
}

void add_text(Sha256& hash, std::string_view text) {
  add_number(hash, static_cast<std::int64_t>(text.size()));
  hash.add(text);
}

/// Name, type and shape stand before the elements, with their lengths: states that differ in how
/// the same bytes are divided have different hashes.
void add_entry(Sha256& hash, const StateEntry& entry) {
  add_number(hash, static_cast<std::int64_t>(entry.kind));
  add_text(hash, entry.name);
  add_text(hash, c10::toString(entry.tensor.scalar_type()));
  add_number(hash, entry.tensor.dim());
  for (const std::int64_t size : entry.tensor.sizes()) add_number(hash, size);
  add_elements(hash, entry.tensor);
}

void check_whole(const StateEntry& entry) {
  LOCKSTEP_CHECK(entry.tensor.sizes().equals(entry.global_shape),
                 "a hash needs the whole tensor " + entry.name);
}

}  // namespace

std::string parameters_sha256(const TrainState& state) {
  Sha256 hash;
  for (const StateEntry* entry : sorted(state)) {
    if (entry->kind != StateKind::parameter) continue;
    check_whole(*entry);
    add_elements(hash, entry->tensor.to(at::kFloat));
  }
  return hash.hex();
}

std::string state_sha256(const TrainState& state) {
  Sha256 hash;
  for (const StateEntry* entry : sorted(state)) {
    check_whole(*entry);
    add_entry(hash, *entry);
  }
  for (const std::int64_t counter :
       {state.step, state.position.epoch, state.position.sample, state.skipped_steps}) {
    add_number(hash, counter);
  }
  if (state.loss_scale.scale > 0) {
    add_number(hash, std::bit_cast<std::int64_t>(state.loss_scale.scale));
    add_number(hash, state.loss_scale.good_steps);
  }
  return hash.hex();
}

}  // namespace lockstep::engine
