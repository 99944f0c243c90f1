// From a path and what was asked for to the writer of a format.
#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/tensor_source.h"

namespace lockstep::checkpoint {

/// "safetensors|torch|dcp|lockstep": the formats that are written.
inline constexpr std::string_view kWrittenFormats = "safetensors|torch|lockstep";

struct OutputOptions {
  std::string format{};               // of kWrittenFormats; empty = as the name of the path says
  std::uint64_t max_shard_bytes = 0;  // of safetensors; 0 = one file
  int ranks = 1;                      // of lockstep: files that each kind is cut into
  bool force = false;                 // what is there may be replaced
};

/// What is written besides the tensors.
struct OutputFacts {
  std::map<std::string, std::string> facts{};  // TensorSource::facts()
  /// Of a source of ours; else its step is that of the facts, or 0.
  const Manifest* manifest = nullptr;
};

struct Output {
  std::unique_ptr<TensorSink> sink;
  std::string format;
  std::filesystem::path folder;  // that the bytes go to
  std::filesystem::path path;    // what commit() leaves, as a reader is to open it
  std::vector<std::string> notes{};
};

/// \param out by its ending .safetensors or .pt, .pth, .bin a file; with format "lockstep" the
/// folder of the steps; any other is a folder of safetensors, given that format or a size of
/// shards. Folders are made.
/// \throws UsageError (LS-1021): no format by that name, options of another format, something at
/// that place without `force`; BadData (LS-5004), UsageError (LS-5012): what the format cannot
/// hold; std::filesystem::filesystem_error.
[[nodiscard]] Output sink_for(const std::filesystem::path& out, std::vector<StoredTensor> tensors,
                              const OutputFacts& facts, const OutputOptions& options);

/// The format that sink_for() takes; empty when neither name nor options say.
[[nodiscard]] std::string output_format(const std::filesystem::path& out,
                                        const OutputOptions& options);

}  // namespace lockstep::checkpoint
