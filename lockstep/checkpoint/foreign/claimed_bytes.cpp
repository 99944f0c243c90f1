#include "lockstep/checkpoint/foreign/claimed_bytes.h"

#include "lockstep/checkpoint/foreign/misfit.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::uint64_t kFreeBytes = 1'000'000'000;
constexpr std::uint64_t kTimes = 1000;

}  // namespace

ClaimedBytes::ClaimedBytes(std::uint64_t file_bytes)
    : left_(file_bytes > (UINT64_MAX - kFreeBytes) / kTimes ? UINT64_MAX
                                                            : kFreeBytes + kTimes * file_bytes) {}

bool ClaimedBytes::add(std::uint64_t tensor_bytes) {
  if (tensor_bytes > left_) return false;
  left_ -= tensor_bytes;
  return true;
}

void check_claims(std::span<const StoredTensor> tensors, std::uint64_t file_bytes,
                  const std::string& where) {
  ClaimedBytes claimed(file_bytes);
  for (const StoredTensor& tensor : tensors) {
    if (claimed.add(tensor.bytes())) continue;
    throw_misfit(where,
                 "tensors of more than 1000 times the bytes of the files, by views that repeat "
                 "elements; the last is " +
                     tensor.name + " " + to_text(tensor.shape));
  }
}

}  // namespace lockstep::checkpoint
