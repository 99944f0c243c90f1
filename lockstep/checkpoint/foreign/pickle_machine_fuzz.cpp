// Any bytes as a pickle: a finite tree or refused with BadData, nothing else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/pickle_machine.h"
#include "lockstep/checkpoint/foreign/torch_file.h"
#include "tests/fuzz/verdict.h"

namespace {

using lockstep::checkpoint::PickleKind;
using lockstep::checkpoint::PickleValue;

constexpr std::uint64_t kFreeVisits = 65'536;

/// Walks all below `value` without remembering what was seen.
void walk(const PickleValue& value, int depth, std::uint64_t& visits_left) {
  LOCKSTEP_CHECK(depth <= lockstep::checkpoint::kMaxPickleDepth, "too deep a value accepted");
  LOCKSTEP_CHECK(visits_left-- > 0, "a value without end accepted");
  const auto visit = [&](const PickleValue* below) {
    if (below != nullptr) walk(*below, depth + 1, visits_left);
  };
  for (std::size_t i = 0; i < value.entries(); ++i) {
    visit(value.entry(i).first);
    visit(value.entry(i).second);
  }
  if (value.entries() == 0) {
    for (const PickleValue* item : value.items()) visit(item);
  }
  visit(value.args());
  visit(value.state());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto tree =
        lockstep::checkpoint::read_pickle(std::string(reinterpret_cast<const char*>(data), size),
                                          lockstep::checkpoint::torch_globals(), "fuzz");
    std::uint64_t visits_left = kFreeVisits + 4 * size;
    walk(tree.root(), 1, visits_left);
    lockstep::fuzz::accepted = true;
  } catch (const lockstep::BadData&) {
  }
  return 0;
}
