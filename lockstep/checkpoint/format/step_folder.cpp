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

/// What lies in `dir`; nothing when it is missing. To open a folder may take long.
std::vector<fs::path> paths_in(const fs::path& dir) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    paths.push_back(at->path());
  }
  return paths;
}

/// Those of `paths` whose names are "<prefix>N<suffix>".
std::vector<StepFolder> folders_named(const std::vector<fs::path>& paths, std::string_view prefix,
                                      std::string_view suffix) {
  std::vector<StepFolder> folders;
  for (const fs::path& path : paths) {
    const auto step = step_of(path.filename().string(), prefix, suffix);
    if (step) folders.push_back({path, *step});
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

/// The lock of a draft's folder; none when another process holds it, or has removed it.
Fd try_lock(const fs::path& folder) {
  Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd && errno != ENOENT) {
    throw fs::filesystem_error("cannot open the folder", folder, {errno, std::generic_category()});
  }
  return fd && take_lock(fd) ? std::move(fd) : Fd();
}

/// Removes what dead writers left. What cannot be removed matters only to a `draft` of its name.
void remove_left_drafts(const fs::path& dir, const fs::path& draft) {
  for (const StepFolder& left : folders_named(paths_in(dir), kHiddenPrefix, kDraftSuffix)) {
    const Fd lock = try_lock(left.path);
    std::error_code stays;
    if (lock) fs::remove_all(left.path, stays);
    if (stays && left.path == draft) {
      throw fs::filesystem_error("cannot remove what an earlier save left", draft, stays);
    }
  }
}

bool exchange(const fs::path& a, const fs::path& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

}  // namespace

std::vector<StepFolder> complete_steps(const fs::path& checkpoints_dir) {
  const std::vector<fs::path> paths = paths_in(checkpoints_dir);
  std::vector<StepFolder> steps = folders_named(paths, kPrefix, "");
  std::erase_if(steps, [](const StepFolder& folder) { return !has_manifest(folder.path); });
  // A step set aside counts only when its successor never arrived.
  for (const StepFolder& aside : folders_named(paths, kHiddenPrefix, kAsideSuffix)) {
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
  remove_left_drafts(checkpoints_dir_, draft_);
  const bool is_ours = fs::create_directory(draft_);
  try {
    if (is_ours) lock_ = try_lock(draft_);
  } catch (...) {
    remove_draft();
    throw;
  }
  if (lock_) return;
  const fs::path busy = std::exchange(draft_, fs::path());
  throw fs::filesystem_error("another process is saving this step", busy,
                             {EBUSY, std::generic_category()});
}

StepDraft::~StepDraft() { remove_draft(); }

void StepDraft::remove_draft() noexcept {
  std::error_code ignored;  // the next writer removes what is left
  if (!draft_.empty()) fs::remove_all(draft_, ignored);
}

fs::path StepDraft::commit() {
  flush_folder(draft_);
  const Place place = take_place();
  try {
    flush_folder(checkpoints_dir_);
  } catch (...) {
    give_back(place);
    throw;
  }
  std::error_code ignored;  // what it replaced counts no more
  if (fs::exists(aside(), ignored)) fs::remove_all(aside(), ignored);
  if (place == Place::exchanged) fs::remove_all(draft_, ignored);
  draft_.clear();
  return final_;
}

fs::path StepDraft::aside() const {
  return checkpoints_dir_ / ("." + final_.filename().string() + std::string(kAsideSuffix));
}

StepDraft::Place StepDraft::take_place() {
  std::error_code missing;
  if (!fs::exists(final_, missing)) {
    fs::rename(draft_, final_);
    return Place::empty;
  }
  if (exchange(draft_, final_)) return Place::exchanged;
  fs::remove_all(aside());
  fs::rename(final_, aside());
  try {
    fs::rename(draft_, final_);
  } catch (...) {
    std::error_code ignored;  // set aside it still counts
    fs::rename(aside(), final_, ignored);
    throw;
  }
  return Place::set_aside;
}

void StepDraft::give_back(Place place) noexcept {
  std::error_code ignored;
  if (place == Place::exchanged) {
    exchange(draft_, final_);
    return;
  }
  fs::rename(final_, draft_, ignored);
  if (place == Place::set_aside) fs::rename(aside(), final_, ignored);
}

void remove_old_steps(const fs::path& checkpoints_dir, int keep) {
  if (keep <= 0) return;
  const auto steps = complete_steps(checkpoints_dir);
  for (std::size_t i = static_cast<std::size_t>(keep); i < steps.size(); ++i) {
    const fs::path doomed = hidden(checkpoints_dir, steps[i].step, kDraftSuffix);
    fs::rename(steps[i].path, doomed);
    fs::remove_all(doomed);
  }
}

}  // namespace lockstep::checkpoint
