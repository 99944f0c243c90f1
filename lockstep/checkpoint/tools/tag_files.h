// The files of a tagged checkpoint, hashed.
#pragma once
#include <filesystem>
#include <map>
#include <string>

#include "lockstep/checkpoint/tools/tags.h"

namespace lockstep::checkpoint {

/// Where file `name` of a tag lies: below a folder, or the one file that `path` is.
[[nodiscard]] std::filesystem::path tagged_path(const std::filesystem::path& path,
                                                const std::string& name);

/// All regular files at or below `path`, also hidden ones and those that links lead to, by their
/// names relative to it. Two threads read. \throws as InputFile; filesystem_error.
[[nodiscard]] std::map<std::string, TaggedFile> hash_files(const std::filesystem::path& path);

/// The same files of `tag` as they are now. \pre they exist.
[[nodiscard]] std::map<std::string, TaggedFile> hash_again(const Tag& tag);

}  // namespace lockstep::checkpoint
