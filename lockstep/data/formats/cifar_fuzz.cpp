// Fuzz target: whatever the bytes, parse_cifar returns whole records with valid labels or BadData.
#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/cifar.h"
#include "tests/fuzz/verdict.h"

namespace {

void parse(std::span<const std::byte> bytes, lockstep::data::CifarKind kind) {
  lockstep::data::MemorySource source(bytes);
  lockstep::data::LabelledImages images;
  try {
    lockstep::data::parse_cifar(source, kind, images);
  } catch (const lockstep::BadData&) {
    return;
  }
  lockstep::fuzz::accepted = true;
  LOCKSTEP_CHECK(images.count == static_cast<std::int64_t>(images.labels.size()) &&
                     images.count * lockstep::data::kCifarPixels ==
                         static_cast<std::int64_t>(images.pixels.size()),
                 "counts do not agree");
  for (const std::uint8_t label : images.labels) {
    LOCKSTEP_CHECK(label < lockstep::data::cifar_classes(kind), "label out of range");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  parse(bytes, lockstep::data::CifarKind::cifar10);
  parse(bytes, lockstep::data::CifarKind::cifar100);
  return 0;
}
