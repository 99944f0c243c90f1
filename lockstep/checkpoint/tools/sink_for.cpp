#include "lockstep/checkpoint/tools/sink_for.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/foreign/dcp_sink.h"
#include "lockstep/checkpoint/foreign/torch_file_sink.h"
#include "lockstep/checkpoint/format/safetensors_sink.h"
#include "lockstep/checkpoint/format/step_sink.h"
#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

struct Ending {
  std::string_view ending;
  std::string_view format;
};
constexpr auto kEndings = std::to_array<Ending>({
    {".safetensors", "safetensors"},
    {".pt", "torch"},
    {".pth", "torch"},
    {".bin", "torch"},
});

/// The format of a file of that name; empty for a folder.
std::string_view format_by_ending(const fs::path& out) {
  const std::string ending = out.extension().string();
  for (const Ending& row : kEndings) {
    if (row.ending == ending) return row.format;
  }
  return "";
}

[[noreturn]] void refuse(const fs::path& out, const std::string& what, const std::string& fix) {
  throw UsageError({{"LS-1021", out.string(), what, fix}});
}

bool is_there(const fs::path& path) {
  std::error_code none;
  return fs::exists(fs::symlink_status(path, none));
}

void refuse_if_there(const fs::path& path, const OutputOptions& options) {
  if (options.force || !is_there(path)) return;
  refuse(path, "is there already", "name another place, or replace it with --force");
}

fs::path folder_of(const fs::path& file) {
  return file.has_parent_path() ? file.parent_path() : fs::path(".");
}

void make_folder(const fs::path& folder) {
  if (!is_there(folder)) fs::create_directories(folder);
}

std::int64_t step_of(const std::map<std::string, std::string>& facts) {
  const auto step = facts.find("step");
  std::int64_t number = 0;
  if (step == facts.end()) return 0;
  const char* end = step->second.data() + step->second.size();
  const auto [stop, error] = std::from_chars(step->second.data(), end, number);
  return error == std::errc() && stop == end && number >= 0 ? number : 0;
}

/// Facts that another program takes for no alias and that are text.
std::map<std::string, std::string> metadata_of(const std::map<std::string, std::string>& facts,
                                               const std::vector<StoredTensor>& tensors) {
  std::set<std::string_view> names;
  for (const StoredTensor& tensor : tensors) names.insert(tensor.name);
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  for (const auto& [key, value] : facts) {
    if (!is_utf8(key) || !is_utf8(value) || names.contains(value)) continue;
    metadata.emplace(key, value);
  }
  return metadata;
}

Output safetensors_output(const fs::path& out, std::vector<StoredTensor> tensors,
                          const OutputFacts& facts, const OutputOptions& options) {
  const bool is_file = format_by_ending(out) == "safetensors";
  const fs::path target = is_file ? out : out / "model.safetensors";
  Output output{nullptr, "safetensors", folder_of(target), out};
  std::error_code none;
  if (!is_file && fs::is_regular_file(out, none)) {
    refuse(out, "is a file, and shards need a folder", "name a folder, or OUT.safetensors");
  }
  if (!is_file && fs::is_directory(out, none) && !fs::is_empty(out)) refuse_if_there(out, options);
  make_folder(output.folder);
  SafetensorsSinkOptions how{options.max_shard_bytes, metadata_of(facts.facts, tensors)};
  auto sink = std::make_unique<SafetensorsSink>(target, std::move(tensors), how);
  for (const fs::path& file : sink->files()) refuse_if_there(file, options);
  output.path = is_file ? sink->files().back() : out;
  output.notes = sink->notes();
  output.sink = std::move(sink);
  return output;
}

Output torch_output(const fs::path& out, std::vector<StoredTensor> tensors,
                    const OutputFacts& facts, const OutputOptions& options) {
  refuse_if_there(out, options);
  Output output{nullptr, "torch", folder_of(out), out};
  make_folder(output.folder);
  std::string lost;
  for (const auto& [key, value] : facts.facts) {
    if (key != "format") lost += (lost.empty() ? "" : ", ") + key;
  }
  if (!lost.empty()) output.notes.push_back("a state dict has no place for: " + lost);
  output.sink = std::make_unique<TorchFileSink>(out, std::move(tensors));
  return output;
}

/// Its description goes first where it is replaced: without one a folder is no checkpoint.
Output dcp_output(const fs::path& out, std::vector<StoredTensor> tensors, const OutputFacts& facts,
                  const OutputOptions& options) {
  std::error_code none;
  if (is_there(out) && !fs::is_directory(out, none)) {
    refuse(out, "is a file, and DCP writes a folder", "name a folder");
  }
  refuse_if_there(out / ".metadata", options);
  fs::remove(out / ".metadata");
  Output output{nullptr, "dcp", out, out};
  make_folder(out);
  if (!facts.facts.empty()) output.notes.emplace_back("the folder has no place for facts");
  output.sink = std::make_unique<DcpSink>(out, std::move(tensors));
  return output;
}

Output lockstep_output(const fs::path& out, std::vector<StoredTensor> tensors,
                       const OutputFacts& facts, const OutputOptions& options) {
  if (is_there(out / kManifestName)) {
    refuse(out, "is one checkpoint step-N, and OUT is the folder of such folders",
           "name the folder above it: " + folder_of(out).string());
  }
  StepSinkOptions how{options.ranks, {}};
  if (facts.manifest != nullptr) {
    how.described = *facts.manifest;
  } else {
    how.described.step = step_of(facts.facts);
  }
  refuse_if_there(out / ("step-" + std::to_string(how.described.step)), options);
  Output output{nullptr, "lockstep", out, {}};
  auto sink = std::make_unique<StepSink>(out, std::move(tensors), std::move(how));
  output.path = sink->path();
  output.sink = std::move(sink);
  return output;
}

/// A writer more is a line here, and its name in kWrittenFormats.
struct Writer {
  std::string_view format;
  Output (*open)(const fs::path& out, std::vector<StoredTensor> tensors, const OutputFacts& facts,
                 const OutputOptions& options);
};
constexpr auto kWriters = std::to_array<Writer>({
    {"safetensors", safetensors_output},
    {"torch", torch_output},
    {"dcp", dcp_output},
    {"lockstep", lockstep_output},
});

}  // namespace

std::string output_format(const fs::path& out, const OutputOptions& options) {
  if (!options.format.empty()) return options.format;
  if (const auto by_name = format_by_ending(out); !by_name.empty()) return std::string(by_name);
  return options.max_shard_bytes > 0 ? "safetensors" : "";
}

Output sink_for(const fs::path& out, std::vector<StoredTensor> tensors, const OutputFacts& facts,
                const OutputOptions& options) {
  const std::string format = output_format(out, options);
  if (format.empty()) {
    refuse(
        out, "its name does not say which format to write",
        "end it in .safetensors or .pt, or add --to safetensors (a folder) or --to lockstep (the "
        "folder of step-N)");
  }
  const auto writer = std::find_if(kWriters.begin(), kWriters.end(),
                                   [&](const Writer& row) { return row.format == format; });
  if (writer == kWriters.end()) {
    throw UsageError({{"LS-5019", out.string(), "this version does not write the format " + format,
                       "use one of: safetensors, torch, dcp, lockstep"}});
  }
  if (options.max_shard_bytes > 0 && format != "safetensors") {
    refuse(out, "only safetensors come in shards, and this is " + format,
           "leave --max-shard out, or write safetensors");
  }
  const auto by_name = format_by_ending(out);
  if (!by_name.empty() && by_name != format) {
    refuse(out, "the name is that of " + std::string(by_name) + ", the format is " + format,
           "give it the name of the format, or leave --to out");
  }
  return writer->open(out, std::move(tensors), facts, options);
}

}  // namespace lockstep::checkpoint
