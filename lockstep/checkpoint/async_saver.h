// Saves behind the training: the state is copied, and written while steps go on.
#pragma once
#include <ATen/core/Tensor.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/comm/group.h"
#include "lockstep/engine/train_state.h"

namespace lockstep::checkpoint {

/// What became of a save.
struct SaveOutcome {
  std::int64_t step = 0;
  /// The disk refused; what was there before still is. The same on every rank.
  std::optional<Problem> fault{};
  std::optional<Problem> left{};  // Saved::left
};

/// All ranks make the same calls in the same order.
class AsyncSaver {
 public:
  /// \param group of all ranks, for the thread that writes alone.
  AsyncSaver(comm::Group& group, std::filesystem::path checkpoints_dir, int keep);
  AsyncSaver(const AsyncSaver&) = delete;
  AsyncSaver& operator=(const AsyncSaver&) = delete;
  ~AsyncSaver();  // when the thread has written all of it

  /// Collective over `world`: copies what this rank writes, and returns while that is being
  /// written. Waits first while two saves before it are.
  /// \returns what became of earlier saves, each once. \throws what a save failed with that is no
  /// fault of the disk.
  std::vector<SaveOutcome> save(const engine::TrainState& state, const SaveInfo& info,
                                comm::Group& world);

  /// Waits until all is written.
  std::vector<SaveOutcome> finish();

 private:
  /// Memory for the copy of one save.
  struct Slot {
    at::Tensor bytes;
    std::optional<SaveParts> save;  // while it is to be written
  };

  void run();
  void write(Slot& slot);
  [[nodiscard]] std::vector<SaveOutcome> wait_until(std::size_t in_flight);
  static void copy(SaveParts& save, at::Tensor& bytes);

  comm::Group& group_;
  const std::filesystem::path checkpoints_dir_;
  const int keep_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Slot, 2> slots_;
  std::deque<Slot*> queue_;  // oldest first; the first one is being written
  std::vector<SaveOutcome> outcomes_;
  std::exception_ptr failed_;
  std::size_t next_slot_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep::checkpoint
