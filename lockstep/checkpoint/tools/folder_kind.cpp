#include "lockstep/checkpoint/tools/folder_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/file_kind.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/format/safetensors_index.h"
#include "lockstep/checkpoint/format/step_folder.h"
#include "lockstep/checkpoint/format/utf8.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using Kind = CheckpointKind;

constexpr std::uint64_t kPeekBytes = 1U << 16;
constexpr const char* kFetchAgain = "copy or download the file again";
constexpr const char* kMetadataFile = ".metadata";

FolderKind nothing(const fs::path& path, std::string why, std::string fix) {
  return {Kind::nothing, path, std::move(why), std::move(fix)};
}

/// The first bytes of a file, up to kPeekBytes.
std::string peek(const InputFile& file) {
  std::string bytes(std::min(file.size_bytes(), kPeekBytes), '\0');
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// `text` without leading blanks, its first letters in lower case.
std::string opening_of(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::string opening(text.substr(0, 64));
  for (char& c : opening) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return opening;
}

/// A length that fits a file, then JSON. A file that was cut is still one.
bool is_safetensors(std::string_view bytes) {
  if (bytes.size() <= 8) return false;
  const bool is_length =
      std::all_of(bytes.begin() + 5, bytes.begin() + 8, [](char byte) { return byte == 0; });
  const std::string_view json = bytes.substr(8, 256);
  const std::size_t first = json.find_first_not_of(" \t\r\n");
  return is_length && first != json.npos && json[first] == '{';
}

/// torch.save() writes a zip, and before version 1.6 wrote a pickle of this number first.
bool is_torch(std::string_view bytes) {
  constexpr std::string_view kZip = "PK\x03\x04";
  constexpr std::string_view kOld("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  return bytes.starts_with(kZip) || bytes.starts_with(kOld);
}

/// The first bytes in hex: "47 47 55 46".
std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes.substr(0, 8)) {
    const auto value = static_cast<unsigned char>(byte);
    if (!text.empty()) text += ' ';
    text += kDigits[value >> 4U];
    text += kDigits[value & 15U];
  }
  return text;
}

FolderKind lfs_pointer(const fs::path& path, std::string_view text) {
  constexpr std::string_view kSize = "\nsize ";
  std::string size;
  const std::size_t at = text.find(kSize);
  if (at != text.npos) {
    const std::string_view rest = text.substr(at + kSize.size());
    const std::string_view digits = rest.substr(0, rest.find_first_not_of("0123456789"));
    if (!digits.empty() && digits.size() < 30) size = " to " + std::string(digits) + " bytes";
  }
  return nothing(path, "a git-lfs pointer" + size + ", not the file itself",
                 "run `git lfs pull` where it was cloned");
}

/// What is known not to be a checkpoint, by what it is.
FolderKind stranger(const InputFile& file, std::string_view bytes) {
  const fs::path& path = file.path();
  const std::string opening = opening_of(bytes);
  if (opening.starts_with("<!doctype html") || opening.starts_with("<html")) {
    return nothing(path, "an HTML page, not a checkpoint: a download that failed or wants a login",
                   kFetchAgain);
  }
  if (opening.starts_with("<?xml")) {
    return nothing(path, "an XML text, not a checkpoint: what a server answers on an error",
                   kFetchAgain);
  }
  if (opening.starts_with("version https://git-lfs.github.com/")) return lfs_pointer(path, bytes);
  if (opening.starts_with("{")) {
    return nothing(path, "a JSON text, not a checkpoint",
                   "name the index of shards by its name *.safetensors.index.json");
  }
  if (bytes.find_first_not_of('\0') == bytes.npos) {
    return nothing(path,
                   "zeros (its first " + format_count(static_cast<std::int64_t>(bytes.size())) +
                       " bytes): a download or copy that never ended",
                   kFetchAgain);
  }
  const std::string kind = checkpoint::kind_of_file(file, 0, file.size_bytes());
  return nothing(path,
                 kind.empty()
                     ? "no format that is known: it begins with " + hex_of(bytes)
                     : "not a checkpoint but " + kind + " (it begins with " + hex_of(bytes) + ")",
                 "name a safetensors file, a file of torch.save(), or a checkpoint's folder");
}

FolderKind kind_of_file(const fs::path& path) {
  const std::string name = path.filename().string();
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (name == kManifestName) return {Kind::step, folder, "", ""};
  if (name == kMetadataFile) return {Kind::dcp, folder, "", ""};
  if (name.ends_with(".distcp")) {
    return nothing(path, "one file of a folder of torch.distributed.checkpoint",
                   "name its folder: " + folder.string());
  }
  const InputFile file(path);
  const std::string bytes = peek(file);
  if (bytes.empty()) return nothing(path, "an empty file", kFetchAgain);
  if (name.ends_with(kIndexEnding) && opening_of(bytes).starts_with("{")) {
    return {Kind::safetensors, path, "", ""};
  }
  if (is_torch(bytes)) return {Kind::torch, path, "", ""};
  if (is_safetensors(bytes)) return {Kind::safetensors, path, "", ""};
  return stranger(file, bytes);
}

/// Names in a folder, sorted.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  if (error) {
    throw EnvironmentFault({"LS-5002", folder.string(), "cannot read: " + error.message(),
                            "check the permissions of the folder"});
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool has_file(const fs::path& folder, const char* name) {
  std::error_code none;
  return fs::is_regular_file(folder / name, none);
}

/// mp_rank_00_model_states.pt, zero_pp_rank_0_mp_rank_00_model_states.pt
bool is_deepspeed_file(const std::string& name) {
  return name.ends_with("_model_states.pt") && name.find("mp_rank_") != name.npos;
}

bool holds_deepspeed_files(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), is_deepspeed_file);
}

/// The folder beside `latest` that its text names; empty when that is no plain name.
fs::path named_by_latest(const fs::path& folder) {
  constexpr std::uint64_t kMostBytes = 4096;
  if (InputFile(folder / "latest").size_bytes() > kMostBytes) return {};
  std::string tag = read_text_file(folder / "latest", kMostBytes);
  while (!tag.empty() && std::isspace(static_cast<unsigned char>(tag.back())) != 0) tag.pop_back();
  const bool is_plain = !tag.empty() && tag.front() != '.' && is_utf8(tag) &&
                        tag.find_first_of(std::string_view("/\0", 2)) == tag.npos;
  return is_plain ? folder / tag : fs::path();
}

FolderKind kind_of_torch_files(const fs::path& folder, const std::vector<std::string>& files) {
  if (files.size() == 1) return kind_of_file(folder / files[0]);
  std::string some;
  for (std::size_t i = 0; i < files.size() && i < 4; ++i) some += (i > 0 ? ", " : "") + files[i];
  if (files.size() > 4) some += ", ...";
  return nothing(folder, std::to_string(files.size()) + " files of torch.save(): " + some,
                 "name one of them");
}

FolderKind kind_of_folder(const fs::path& folder) {
  if (has_file(folder, kManifestName)) return {Kind::step, folder, "", ""};
  for (const fs::path& checkpoints : {folder, folder / "checkpoints"}) {
    if (newest_complete(checkpoints)) return {Kind::run, checkpoints, "", ""};
  }
  if (has_file(folder, kMetadataFile)) return {Kind::dcp, folder, "", ""};
  const auto names = names_in(folder);
  if (holds_deepspeed_files(names)) return {Kind::deepspeed, folder, "", ""};
  const bool has_latest = has_file(folder, "latest");
  const fs::path latest = has_latest ? named_by_latest(folder) : fs::path();
  std::error_code none;
  if (!latest.empty() && fs::is_directory(latest, none) &&
      holds_deepspeed_files(names_in(latest))) {
    return {Kind::deepspeed, folder, "", ""};
  }
  std::vector<std::string> torch_files;
  for (const std::string& name : names) {
    if (name.ends_with(kSafetensorsEnding) || name.ends_with(kIndexEnding)) {
      return {Kind::safetensors, folder, "", ""};
    }
    if (name.ends_with(".pt") || name.ends_with(".pth")) torch_files.push_back(name);
  }
  if (!torch_files.empty()) return kind_of_torch_files(folder, torch_files);
  if (has_latest) {
    return nothing(folder,
                   latest.empty() ? "its file `latest` names no folder"
                                  : "its file `latest` names " + latest.filename().string() +
                                        ", where there is no mp_rank_*_model_states.pt",
                   "copy the folder that it names, or name another one");
  }
  return nothing(
      folder,
      "no checkpoint files in " + folder.string() +
          " (looked for step-*/manifest.json, *.safetensors, *.pt, *.pth, .metadata, "
          "latest)",
      "name the folder that holds them, or the file itself where it is called otherwise");
}

}  // namespace

std::string format_of(CheckpointKind kind) {
  switch (kind) {
    case Kind::nothing:
      return "";
    case Kind::step:
    case Kind::run:
      return "lockstep";
    case Kind::safetensors:
      return "safetensors";
    case Kind::torch:
      return "torch";
    case Kind::dcp:
      return "dcp";
    case Kind::deepspeed:
      return "deepspeed";
  }
  return "";
}

FolderKind folder_kind(const fs::path& path) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  if (!fs::exists(status)) return nothing(path, "no such file or folder", "check the path");
  if (fs::is_directory(status)) return kind_of_folder(path);
  if (fs::is_regular_file(status)) return kind_of_file(path);
  return nothing(path, "neither a file nor a folder", "name a checkpoint");
}

Problem problem_of(const FolderKind& nothing) {
  LOCKSTEP_CHECK(nothing.kind == Kind::nothing, "a checkpoint is no problem");
  return {"LS-5003", nothing.path.string(), nothing.why, nothing.fix};
}

}  // namespace lockstep::checkpoint
