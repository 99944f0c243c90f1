#include "lockstep/checkpoint/format/step_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/base/fd.h"
#include "lockstep/base/file_lock.h"
#include "lockstep/checkpoint/format/manifest.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kHiddenPrefix = ".step-";
constexpr std::string_view kDraftSuffix = ".tmp";  // being written, or being removed
constexpr std::string_view kAsideSuffix = ".old";  // replaced where folders cannot be exchanged

std::string step_name(std::int64_t step) { return std::string(kPrefix) + std::to_string(step); }

fs::path hidden(const fs::path& dir, std::int64_t step, std::string_view suffix) {
  return dir / ("." + step_name(step) + std::string(suffix));
}

/// N of "<prefix>N<suffix>", as step_name() writes it.
std::optional<std::int64_t> step_of(std::string_view name, std::string_view prefix,
                                    std::string_view suffix) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  if (name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  name = name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool canonical = error == std::errc() && std::to_string(step) == name && step >= 0;
  return canonical ? std::optional(step) : std::nullopt;
}

bool has_manifest(const fs::path& folder) {
  std::error_code missing;
  return fs::is_regular_file(folder / kManifestName, missing);
}

/// Folders of `dir` whose names are "<prefix>N<suffix>"; none when `dir` is missing.
std::vector<StepFolder> folders_named(const fs::path& dir, std::string_view prefix,
                                      std::string_view suffix) {
  std::vector<StepFolder> folders;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    const auto step = step_of(at->path().filename().string(), prefix, suffix);
    if (step) folders.push_back({at->path(), *step});
  }
  return folders;
}

void flush_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Some network file systems cannot flush a folder and say so with EINVAL.
  if (!fd || (::fsync(fd.get()) != 0 && errno != EINVAL)) {
    throw fs::filesystem_error("cannot flush the folder", folder, {errno, std::generic_category()});
  }
}

/// The lock of a draft's folder; none when another process holds it.
Fd try_lock(const fs::path& folder) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd && take_lock(fd) ? std::move(fd) : Fd();
}

bool exchange(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

std::vector<StepFolder> complete_steps(const fs::path& checkpoints_dir) {
  std::vector<StepFolder> steps = folders_named(checkpoints_dir, kPrefix, "");
  std::erase_if(steps, [](const StepFolder& folder) { return !has_manifest(folder.path); });
  // A step set aside counts only when its successor never arrived.
  for (const StepFolder& aside : folders_named(checkpoints_dir, kHiddenPrefix, kAsideSuffix)) {
    const bool replaced = std::any_of(steps.begin(), steps.end(), [&](const StepFolder& folder) {
      return folder.step == aside.step;
    });
    if (!replaced && has_manifest(aside.path)) steps.push_back(aside);
  }
  std::sort(steps.begin(), steps.end(),
            [](const StepFolder& a, const StepFolder& b) { return a.step > b.step; });
  return steps;
}

std::optional<fs::path> newest_complete(const fs::path& checkpoints_dir) {
  const auto steps = complete_steps(checkpoints_dir);
  return steps.empty() ? std::nullopt : std::optional(steps.front().path);
}

StepDraft::StepDraft(fs::path checkpoints_dir, std::int64_t step)
    : checkpoints_dir_(std::move(checkpoints_dir)),
      final_(checkpoints_dir_ / step_name(step)),
      draft_(hidden(checkpoints_dir_, step, kDraftSuffix)) {
  fs::create_directories(checkpoints_dir_);
  for (const StepFolder& left : folders_named(checkpoints_dir_, kHiddenPrefix, kDraftSuffix)) {
    if (try_lock(left.path)) fs::remove_all(left.path);
  }
  if (fs::create_directory(draft_)) lock_ = try_lock(draft_);
  if (lock_) return;
  const fs::path busy = std::exchange(draft_, fs::path());  // it is not ours to remove
  throw fs::filesystem_error("another process is saving this step", busy,
                             {EBUSY, std::generic_category()});
}

StepDraft::~StepDraft() {
  std::error_code ignored;  // the next writer removes what is left
  if (!draft_.empty()) fs::remove_all(draft_, ignored);
}

fs::path StepDraft::commit() {
  flush_folder(draft_);
  const fs::path aside =
      checkpoints_dir_ / ("." + final_.filename().string() + std::string(kAsideSuffix));
  std::error_code missing;
  if (!fs::exists(final_, missing)) {
    fs::rename(draft_, final_);
    draft_.clear();
  } else if (exchange(draft_, final_)) {
    flush_folder(checkpoints_dir_);
  } else {
    fs::remove_all(aside);
    fs::rename(final_, aside);
    fs::rename(draft_, final_);
    draft_.clear();
  }
  flush_folder(checkpoints_dir_);
  fs::remove_all(aside);
  if (!draft_.empty()) fs::remove_all(std::exchange(draft_, fs::path()));
  return final_;
}

void remove_old_steps(const fs::path& checkpoints_dir, int keep) {
  const auto steps = complete_steps(checkpoints_dir);
  if (keep <= 0) return;
  for (std::size_t i = static_cast<std::size_t>(keep); i < steps.size(); ++i) {
    const fs::path doomed = hidden(checkpoints_dir, steps[i].step, kDraftSuffix);
    fs::rename(steps[i].path, doomed);
    fs::remove_all(doomed);
  }
}

}  // namespace lockstep::checkpoint
