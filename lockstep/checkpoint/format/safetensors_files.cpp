#include "lockstep/checkpoint/format/safetensors_files.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/safetensors_index.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFetchAgain = "copy or download the file again";

/// The files that a path stands for.
struct Layout {
  std::vector<fs::path> files;  // as in index->files, where there is an index
  std::optional<SafetensorsIndex> index;
  fs::path index_path;
  bool is_all_of_folder = false;
};

[[noreturn]] void throw_none(const fs::path& path, const std::string& what,
                             const std::string& fix) {
  throw BadData({"LS-5003", path.string(), what, fix});
}

Layout of_index(const fs::path& path, std::uint64_t max_bytes) {
  const std::string text = read_text_file(path, std::max(max_bytes, kMaxHeaderBytes));
  Layout layout{{}, parse_safetensors_index(text, path.string()), path};
  for (const std::string& file : layout.index->files) {
    layout.files.push_back(path.parent_path() / file);
  }
  return layout;
}

std::vector<fs::path> files_ending(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(ending) && !name.starts_with(".")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

Layout of_folder(const fs::path& folder, std::uint64_t max_bytes) {
  const fs::path plain = folder / "model.safetensors";
  if (fs::exists(plain)) return {{plain}, std::nullopt, {}};
  const auto indexes = files_ending(folder, kIndexEnding);
  const fs::path usual = folder / ("model" + std::string(kIndexEnding));
  if (fs::exists(usual)) return of_index(usual, max_bytes);
  if (indexes.size() == 1) return of_index(indexes[0], max_bytes);
  if (indexes.size() > 1) {
    throw_none(folder, "holds " + std::to_string(indexes.size()) + " indexes of shards",
               "name one of them: " + indexes[0].string());
  }
  Layout layout{files_ending(folder, kSafetensorsEnding), std::nullopt, {}, true};
  if (layout.files.empty()) {
    throw_none(folder, "no *.safetensors in it", "name a file, its folder, or an index");
  }
  return layout;
}

Layout find_layout(const fs::path& path, std::uint64_t max_bytes) {
  std::error_code none;
  const fs::file_status status = fs::status(path, none);
  if (!fs::exists(status)) throw_none(path, "no such file or folder", "check the path");
  if (fs::is_directory(status)) return of_folder(path, max_bytes);
  if (path.extension() == ".json") return of_index(path, max_bytes);
  return {{path}, std::nullopt, {}};
}

/// Some names of tensors and how many there are: 3 tensors ("a", "b", "c").
class Names {
 public:
  void add(const std::string& name) {
    constexpr std::int64_t kShown = 8;
    if (count_++ < kShown) text_ += (text_.empty() ? "\"" : ", \"") + name + "\"";
    if (count_ == kShown + 1) text_ += ", ...";
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] std::string text() const { return counted(count_, "tensor") + " (" + text_ + ")"; }

 private:
  std::int64_t count_ = 0;
  std::string text_;
};

std::string bytes_text(std::uint64_t bytes) {
  return format_count(static_cast<std::int64_t>(bytes)) + " bytes";
}

class Opening {
 public:
  Opening(Layout layout, std::uint64_t max_header_bytes)
      : layout_(std::move(layout)), max_header_bytes_(max_header_bytes) {}

  std::vector<SafetensorsPart> run() {
    for (std::uint32_t file = 0; file < layout_.files.size(); ++file) parts_.push_back(open(file));
    compare_names();
    if (layout_.index) compare_with_index();
    if (layout_.is_all_of_folder) find_missing_numbers();
    if (problems_.size() == 1) throw BadData(problems_[0]);
    if (!problems_.empty()) throw Error(Exit::bad_data, std::move(problems_));
    std::vector<SafetensorsPart> parts;
    parts.reserve(parts_.size());
    for (auto& part : parts_) parts.push_back(std::move(*part));
    return parts;
  }

 private:
  /// A tensor of an opened file.
  struct Named {
    const std::string* name;
    std::uint32_t file;
  };

  void add(const fs::path& where, std::string what, std::string fix = kFetchAgain) {
    problems_.push_back({"LS-5004", where.string(), shortened(std::move(what)), std::move(fix)});
  }

  /// Nothing when it cannot be read; a file of wrong length is still compared with the others.
  std::optional<SafetensorsPart> open(std::uint32_t number) {
    const fs::path& path = layout_.files[number];
    std::error_code none;
    if (!fs::exists(path, none)) {
      add(path, "missing" + lost_with(number));
      return std::nullopt;
    }
    try {
      InputFile file(path);
      SafetensorsHeader header = read_header_of_any_length(file, max_header_bytes_);
      check_length(file, header);
      return SafetensorsPart{std::move(file), std::move(header)};
    } catch (const BadData& error) {
      for (Problem problem : error.problems()) {
        problem.what = shortened(problem.what + lost_with(number));
        problems_.push_back(std::move(problem));
      }
      return std::nullopt;
    }
  }

  void check_length(const InputFile& file, const SafetensorsHeader& header) {
    const std::uint64_t expected = described_bytes(header);
    const std::string sizes =
        "has " + bytes_text(file.size_bytes()) + ", " + bytes_text(expected) + " expected";
    if (file.size_bytes() > expected) add(file.path(), sizes);
    if (file.size_bytes() >= expected) return;
    Names lost;
    for (const TensorInfo& tensor : header.tensors) {
      if (header.data_start + tensor.end > file.size_bytes()) lost.add(tensor.name);
    }
    add(file.path(), sizes + "; lost: " + lost.text());
  }

  /// What the index has in a file that cannot be read.
  [[nodiscard]] std::string lost_with(std::uint32_t number) const {
    if (!layout_.index) return "";
    Names lost;
    for (const auto& entry : layout_.index->entries) {
      if (entry.file == number) lost.add(entry.tensor);
    }
    return "; lost: " + lost.text();
  }

  void compare_names() {
    for (std::uint32_t file = 0; file < parts_.size(); ++file) {
      if (!parts_[file]) continue;
      for (const TensorInfo& tensor : parts_[file]->header.tensors) {
        named_.push_back({&tensor.name, file});
      }
    }
    std::sort(named_.begin(), named_.end(), [](const Named& a, const Named& b) {
      return std::tie(*a.name, a.file) < std::tie(*b.name, b.file);
    });
    std::map<std::pair<std::uint32_t, std::uint32_t>, Names> twice;
    for (std::size_t i = 1; i < named_.size(); ++i) {
      if (*named_[i].name != *named_[i - 1].name) continue;
      twice[{named_[i - 1].file, named_[i].file}].add(*named_[i].name);
    }
    for (const auto& [files, names] : twice) {
      add(layout_.files[files.second],
          names.text() + " also in " + layout_.files[files.first].filename().string(),
          "name one of the files, or keep those of one checkpoint in the folder");
    }
  }

  /// Where index and files disagree, by file.
  struct Differences {
    Names not_there;   // the index has them in it
    Names not_listed;  // nowhere in the index
    Names elsewhere;   // in the index, under another file
  };

  void compare_with_index() {
    const std::vector<Differences> differences = find_differences();
    const std::string index = layout_.index_path.filename().string();
    for (std::size_t file = 0; file < parts_.size(); ++file) {
      const fs::path& path = layout_.files[file];
      const auto& [not_there, not_listed, elsewhere] = differences[file];
      if (!not_there.empty()) {
        add(path, "not in it, though " + index + " has them there: " + not_there.text());
      }
      if (!not_listed.empty()) add(path, "not in " + index + ": " + not_listed.text());
      if (!elsewhere.empty()) {
        add(path, "in it, but in another file by " + index + ": " + elsewhere.text());
      }
    }
  }

  /// Tensors and entries are both sorted by name.
  [[nodiscard]] std::vector<Differences> find_differences() const {
    std::vector<Differences> differences(parts_.size());
    auto tensor = named_.begin();
    for (const auto& entry : layout_.index->entries) {
      for (; tensor != named_.end() && *tensor->name < entry.tensor; ++tensor) {
        differences[tensor->file].not_listed.add(*tensor->name);
      }
      if (tensor == named_.end() || *tensor->name != entry.tensor) {
        if (is_lost(entry)) differences[entry.file].not_there.add(entry.tensor);
        continue;
      }
      if (tensor->file != entry.file) differences[tensor->file].elsewhere.add(entry.tensor);
      // The same name in two files is noted by compare_names().
      while (tensor != named_.end() && *tensor->name == entry.tensor) ++tensor;
    }
    for (; tensor != named_.end(); ++tensor) {
      differences[tensor->file].not_listed.add(*tensor->name);
    }
    return differences;
  }

  /// Not when its file is already known to be unreadable, or it is an alias of a tensor there.
  [[nodiscard]] bool is_lost(const SafetensorsIndex::Entry& entry) const {
    const auto& part = parts_[entry.file];
    return part && !part->header.metadata.contains(entry.tensor);
  }

  /// Without an index the names of the files tell how many there should be.
  void find_missing_numbers() {
    std::map<std::pair<std::string, std::uint64_t>, std::vector<std::uint64_t>> numbers;
    for (const fs::path& path : layout_.files) {
      const ShardName name = parse_shard_name(path.filename().string());
      if (name.shards > 0) numbers[{name.stem, name.shards}].push_back(name.shard);
    }
    for (const auto& [set, found] : numbers) {
      if (found.size() == set.second) continue;
      std::uint64_t first = 1;  // `found` ascends
      for (const std::uint64_t shard : found) first += shard == first ? 1U : 0U;
      add(layout_.files.front().parent_path() / shard_name(set.first, first, set.second),
          "missing; " + std::to_string(found.size()) + " of " + std::to_string(set.second) +
              " files are there");
    }
  }

  Layout layout_;
  std::uint64_t max_header_bytes_;
  std::vector<std::optional<SafetensorsPart>> parts_;  // as layout_.files
  std::vector<Named> named_;                           // by name
  std::vector<Problem> problems_;
};

}  // namespace

std::vector<SafetensorsPart> open_safetensors(const fs::path& path,
                                              std::uint64_t max_header_bytes) {
  return Opening(find_layout(path, max_header_bytes), max_header_bytes).run();
}

}  // namespace lockstep::checkpoint
