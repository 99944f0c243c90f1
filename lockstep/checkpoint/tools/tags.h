// Names for checkpoints: a folder with one small JSON file a tag, which says where the checkpoint
// is and what its files were when it got its name.
#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

struct TaggedFile {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;  // XXH3-64

  friend bool operator==(const TaggedFile&, const TaggedFile&) = default;
};

struct Tag {
  std::string name;            // letters, digits and ._-, not beginning with . or -
  std::filesystem::path path;  // a file or a folder
  std::string format;          // as TensorSource::format()
  std::optional<std::int64_t> step;
  std::string run;                          // free text, like the next two; empty = not said
  std::string metric;                       // "val_loss 2.31"
  std::string parent;                       // the tag or checkpoint it was made from
  std::string created;                      // UTC: "2026-01-31T12:00:00Z"
  std::map<std::string, TaggedFile> files;  // below `path`, "a/b" for deeper ones
};

/// The document of one tag. \pre all texts are UTF-8.
[[nodiscard]] std::string write_tag(const Tag& tag);

/// \throws BadData (LS-5004). \param where the file, for messages.
[[nodiscard]] Tag parse_tag(std::string_view text, const std::string& where);

/// What became of the files since: missing, of another size, or, where all sizes are right, of
/// other bytes (LS-5017). Files that came later are not looked at. \throws EnvironmentFault
/// (LS-5002). \param hashed_bytes larger files go by their size alone: those of lockstep are
/// compared with the checksums of their manifest when they are read.
[[nodiscard]] std::vector<Problem> verify_tag(
    const Tag& tag, std::uint64_t hashed_bytes = std::numeric_limits<std::uint64_t>::max());

class TagRegistry {
 public:
  enum class Existing { refuse, replace };

  struct Listing {
    std::vector<Tag> tags;          // by name
    std::vector<Problem> problems;  // of tags that cannot be read
  };

  /// \param dir need not exist before add().
  explicit TagRegistry(std::filesystem::path dir) : dir_(std::move(dir)) {}

  /// Reads and hashes every file of tag.path, then writes the tag. \param tag its path is made
  /// absolute, `created` is now when it is empty, `files` are found anew.
  /// \throws UsageError (LS-5016) for a bad name, one that exists, or text that is not UTF-8;
  /// BadData (LS-5003) when there is no file at the path; EnvironmentFault (LS-5002);
  /// std::filesystem::filesystem_error.
  Tag add(Tag tag, Existing existing = Existing::refuse) const;

  [[nodiscard]] Listing list() const;

  /// \throws UsageError (LS-5016) when there is none of that name, with the nearest; BadData
  /// (LS-5004) when its file is damaged.
  [[nodiscard]] Tag find(const std::string& name) const;

  /// The tag, not the checkpoint; also one that is damaged. \throws as find() for unknown names.
  void remove(const std::string& name) const;

 private:
  [[nodiscard]] std::filesystem::path file_of(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[noreturn]] void throw_unknown(const std::string& name) const;

  std::filesystem::path dir_;
};

/// Whether a tag may have this name.
[[nodiscard]] bool is_tag_name(std::string_view name);

}  // namespace lockstep::checkpoint
