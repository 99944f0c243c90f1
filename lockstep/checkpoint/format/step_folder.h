// The folders step-N of one run: which are complete, how a new one appears whole, how old ones go.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/fd.h"

namespace lockstep::checkpoint {

struct StepFolder {
  std::filesystem::path path;
  std::int64_t step = 0;
};

/// Folders that hold a manifest, newest (highest step) first. A missing `checkpoints_dir` has none.
/// The manifest is not read: it may still be damaged, so try the next one when load() throws.
[[nodiscard]] std::vector<StepFolder> complete_steps(const std::filesystem::path& checkpoints_dir);

/// The first of complete_steps().
[[nodiscard]] std::optional<std::filesystem::path> newest_complete(
    const std::filesystem::path& checkpoints_dir);

/// A checkpoint being written, hidden from complete_steps() until commit(). Its folder is locked
/// while its writer lives, so that writers do not remove each other's drafts.
class StepDraft {
 public:
  /// Makes `checkpoints_dir` and a hidden folder in it, after removing what dead writers left
  /// there. \throws std::filesystem::filesystem_error, also (EBUSY) when another living writer
  /// saves the same step.
  StepDraft(std::filesystem::path checkpoints_dir, std::int64_t step);
  StepDraft(const StepDraft&) = delete;
  StepDraft& operator=(const StepDraft&) = delete;
  ~StepDraft();  // removes the folder when it was not committed

  /// Where the files go. Each must be flushed by who writes it.
  [[nodiscard]] const std::filesystem::path& path() const { return draft_; }

  /// Takes the place of step-N in one move, also when there is one already, and flushes it.
  /// \returns its path. \throws std::filesystem::filesystem_error; then all is as it was before.
  std::filesystem::path commit();

  /// The folder stays when it was not committed: others may still write into it. A later draft
  /// removes it.
  void leave() { draft_.clear(); }

 private:
  /// What was at step-N.
  enum class Place : std::uint8_t { empty, exchanged, set_aside };

  [[nodiscard]] std::filesystem::path aside() const;
  [[nodiscard]] Place take_place();
  void give_back(Place place) noexcept;
  void remove_draft() noexcept;

  std::filesystem::path checkpoints_dir_;
  std::filesystem::path final_;
  std::filesystem::path draft_;
  Fd lock_;
};

/// Keeps the `keep` newest complete steps and removes the others; 0 keeps all. A folder disappears
/// in one move before its files go. \throws std::filesystem::filesystem_error.
void remove_old_steps(const std::filesystem::path& checkpoints_dir, int keep);

}  // namespace lockstep::checkpoint
