// The bytes of one checkpoint into another, whatever their formats.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// Memory for bytes under way, however large the tensors are.
inline constexpr std::uint64_t kCopyBytes = 8U << 20;

struct CopyOptions {
  /// Name in the sink -> name in the source, where they differ.
  std::map<std::string, std::string> renamed;
  /// Called from time to time and at the end, from the thread of the caller; may throw to stop.
  std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_all)> progress;
};

/// Writes every tensor of sink.order(), which has its bytes in `source`. A second thread reads
/// ahead of the writing. Does not commit: the caller does, or drops the sink. \pre names, types and
/// sizes fit each other; an alias of the source's is no name. \throws as TensorSource::read() and
/// TensorSink::write().
void copy_tensors(const TensorSource& source, TensorSink& sink, const CopyOptions& options = {});

}  // namespace lockstep::checkpoint
