#include "lockstep/checkpoint/tools/tags.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/fd.h"
#include "lockstep/base/file_lock.h"
#include "lockstep/base/nearest.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/strict_json.h"
#include "lockstep/checkpoint/format/utf8.h"
#include "lockstep/checkpoint/tools/tag_files.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kEnding = ".json";
constexpr std::size_t kMaxNameBytes = 200;  // leaves room for endings in 255
constexpr std::uint64_t kMaxTagBytes = 1U << 26;
constexpr int kMaxDepth = 3;  // tag, files, file

/// A name that stays below the checkpoint: no empty part, no "..".
bool is_inner_name(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && path.is_relative() && name == path.lexically_normal().string() &&
         path.has_filename() && *path.begin() != ".." && *path.begin() != ".";
}

Tag parse_fields(const StrictJson& root, const std::string& where) {
  Tag tag;
  tag.name = root["tag"].text();
  if (!is_tag_name(tag.name)) root["tag"].fail("not a name for a tag");
  tag.path = root["path"].text();
  tag.format = root["format"].text();
  if (!root["step"].raw().is_null()) tag.step = root["step"].natural();
  tag.run = root["run"].text();
  tag.metric = root["metric"].text();
  tag.parent = root["parent"].text();
  tag.created = root["created"].text();
  for (const auto& [name, value] : root["files"].object()) {
    const StrictJson fields(value, "files." + name, where);
    const auto sum = from_hex(fields["xxh3"].text());
    if (!sum) fields["xxh3"].fail("not 16 hex digits");
    if (!is_inner_name(name)) fields.fail("leads out of the checkpoint");
    tag.files[name] = {static_cast<std::uint64_t>(fields["bytes"].natural()), *sum};
  }
  return tag;
}

std::string now_utc() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc));
  return text;
}

[[noreturn]] void throw_tag(const std::string& where, const std::string& what,
                            const std::string& fix) {
  throw UsageError({{"LS-5016", where, what, fix}});
}

void check_texts(const Tag& tag) {
  const std::string path = tag.path.string();
  for (const std::string* text :
       {&path, &tag.format, &tag.run, &tag.metric, &tag.parent, &tag.created}) {
    if (!is_utf8(*text)) throw_tag("tag " + tag.name, "a text that is not UTF-8", "use UTF-8");
  }
  for (const auto& [name, file] : tag.files) {
    if (!is_utf8(name)) throw_tag("tag " + tag.name, "a file name that is not UTF-8", "rename it");
  }
}

/// One writer of the registry at a time, over all processes.
Fd lock_folder(const fs::path& dir) {
  constexpr int kTries = 200;
  constexpr std::chrono::milliseconds kPause{50};
  Fd fd(::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int i = 0; fd && i < kTries; ++i) {
    if (take_lock(fd)) return fd;
    std::this_thread::sleep_for(kPause);
  }
  throw EnvironmentFault({"LS-5002", dir.string(),
                          fd ? "another process is writing tags, for more than 10 s"
                             : "cannot open the folder of tags",
                          "try again, or check the permissions"});
}

std::string bytes_text(std::uint64_t bytes) {
  return format_count(static_cast<std::int64_t>(bytes)) + " bytes";
}

Problem change(const Tag& tag, const std::string& file, const std::string& expected,
               const std::string& found) {
  return {"LS-5017", tagged_path(tag.path, file).string(),
          "changed since it was tagged " + tag.name + ": expected " + expected + ", found " + found,
          "restore the file from a copy, or tag the checkpoint anew"};
}

/// The tag's path as it can be found from anywhere, without a slash behind it.
fs::path full_path(const fs::path& path) {
  fs::path full = fs::absolute(path).lexically_normal();
  return full.has_filename() ? full : full.parent_path();
}

}  // namespace

bool is_tag_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '.' && name[0] != '-' &&
         std::all_of(name.begin(), name.end(), is_allowed);
}

std::string write_tag(const Tag& tag) {
  ordered_json files = ordered_json::object();
  for (const auto& [name, file] : tag.files) {
    files[name] = {{"bytes", file.bytes}, {"xxh3", to_hex(file.checksum)}};
  }
  const ordered_json document{
      {"tag", tag.name},      {"path", tag.path.string()},
      {"format", tag.format}, {"step", tag.step ? ordered_json(*tag.step) : ordered_json()},
      {"run", tag.run},       {"metric", tag.metric},
      {"parent", tag.parent}, {"created", tag.created},
      {"files", files}};
  return document.dump(2) + "\n";
}

Tag parse_tag(std::string_view text, const std::string& where) {
  const json document = parse_strict_json(text, kMaxDepth, where);
  return parse_fields(StrictJson(document, "", where), where);
}

std::vector<Problem> verify_tag(const Tag& tag, std::uint64_t hashed_bytes) {
  std::vector<Problem> problems;
  for (const auto& [name, file] : tag.files) {
    std::error_code missing;
    const auto bytes = fs::file_size(tagged_path(tag.path, name), missing);
    if (missing) {
      problems.push_back(change(tag, name, bytes_text(file.bytes), "no file"));
    } else if (bytes != file.bytes) {
      problems.push_back(change(tag, name, bytes_text(file.bytes), bytes_text(bytes)));
    }
  }
  if (!problems.empty()) return problems;  // the answer is known without hashing
  Tag hashed = tag;
  std::erase_if(hashed.files, [&](const auto& one) { return one.second.bytes > hashed_bytes; });
  for (const auto& [name, file] : hash_again(hashed)) {
    const TaggedFile& expected = tag.files.at(name);
    if (file == expected) continue;
    problems.push_back(
        change(tag, name, "xxh3 " + to_hex(expected.checksum), to_hex(file.checksum)));
  }
  return problems;
}

fs::path TagRegistry::file_of(const std::string& name) const {
  if (!is_tag_name(name)) {
    throw_tag(dir_.string(), "\"" + name + "\" is no name for a tag",
              "use letters, digits, '.', '_' and '-', at most 200, not beginning with '.' or '-'");
  }
  return dir_ / (name + std::string(kEnding));
}

Tag TagRegistry::add(Tag tag, Existing existing) const {
  const fs::path target = file_of(tag.name);
  const auto check_free = [&] {
    if (existing == Existing::replace || !fs::exists(target)) return;
    throw_tag(target.string(), "the tag \"" + tag.name + "\" exists already",
              "take another name, or ask for it to be replaced");
  };
  check_free();  // before the long reading
  tag.path = full_path(tag.path);
  if (!fs::exists(tag.path)) {
    throw BadData({"LS-5003", tag.path.string(), "no such file or folder", "check the path"});
  }
  tag.files = hash_files(tag.path);
  if (tag.files.empty()) {
    throw BadData({"LS-5003", tag.path.string(), "holds no file", "name a checkpoint"});
  }
  if (tag.created.empty()) tag.created = now_utc();
  check_texts(tag);
  fs::create_directories(dir_);
  const Fd lock = lock_folder(dir_);
  check_free();
  AtomicFile file(target);
  const std::string text = write_tag(tag);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  return tag;
}

std::vector<std::string> TagRegistry::names() const {
  std::vector<std::string> names;
  std::error_code missing;
  for (fs::directory_iterator at(dir_, missing), end; !missing && at != end;
       at.increment(missing)) {
    std::string name = at->path().filename().string();
    if (!name.ends_with(kEnding)) continue;
    name.resize(name.size() - kEnding.size());
    if (is_tag_name(name)) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

TagRegistry::Listing TagRegistry::list() const {
  Listing listing;
  for (const std::string& name : names()) {
    try {
      listing.tags.push_back(find(name));
    } catch (const Error& error) {
      listing.problems.insert(listing.problems.end(), error.problems().begin(),
                              error.problems().end());
    }
  }
  return listing;
}

void TagRegistry::throw_unknown(const std::string& name) const {
  const std::vector<std::string> known = names();
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  throw_tag(dir_.string(), "there is no tag \"" + name + "\"",
            did_you_mean(name, candidates,
                         known.empty() ? "no checkpoint is tagged yet" : "list the tags"));
}

Tag TagRegistry::find(const std::string& name) const {
  const fs::path file = file_of(name);
  std::error_code none;
  if (!fs::exists(file, none)) throw_unknown(name);
  Tag tag = parse_tag(read_text_file(file, kMaxTagBytes), file.string());
  if (tag.name != name) {
    throw BadData({"LS-5004", file.string(), "is the file of tag \"" + tag.name + "\"",
                   "give the file back its name, or remove it"});
  }
  return tag;
}

void TagRegistry::remove(const std::string& name) const {
  const fs::path file = file_of(name);
  std::error_code none;
  if (!fs::exists(file, none)) throw_unknown(name);
  const Fd lock = lock_folder(dir_);
  fs::remove(file);
}

}  // namespace lockstep::checkpoint
