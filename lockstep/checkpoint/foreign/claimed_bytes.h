// How much tensors may claim together: a view can repeat the elements of its storage, and a hostile
// one does so without end.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// 1 GB and 1000 times the bytes of the files that hold the tensors.
class ClaimedBytes {
 public:
  explicit ClaimedBytes(std::uint64_t file_bytes);

  /// \returns false: with this tensor it is more.
  [[nodiscard]] bool add(std::uint64_t tensor_bytes);

 private:
  std::uint64_t left_;
};

/// \param where the folder. \throws BadData (LS-5020) naming the tensor with which they claim more.
void check_claims(std::span<const StoredTensor> tensors, std::uint64_t file_bytes,
                  const std::string& where);

}  // namespace lockstep::checkpoint
