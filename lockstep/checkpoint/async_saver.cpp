#include "lockstep/checkpoint/async_saver.h"

#include <ATen/ATen.h>

#include <cstring>
#include <utility>

#include "lockstep/memory/category.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::int64_t kAlignment = 64;  // bytes

std::int64_t padded(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

AsyncSaver::AsyncSaver(comm::Group& group, std::filesystem::path checkpoints_dir, int keep)
    : group_(group), checkpoints_dir_(std::move(checkpoints_dir)), keep_(keep) {
  thread_ = std::thread([this] { run(); });
}

AsyncSaver::~AsyncSaver() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

/// What this rank writes, end to end in `bytes`, which keeps its memory from save to save.
void AsyncSaver::copy(SaveParts& save, at::Tensor& bytes) {
  std::int64_t all = 0;
  for (const at::Tensor& part : save.parts) {
    all += padded(static_cast<std::int64_t>(part.nbytes()));
  }
  if (!bytes.defined() || bytes.numel() < all) {
    const memory::Scope copies(memory::Category::buffers);
    bytes = at::empty({all}, at::kByte);
  }
  std::int64_t begin = 0;
  for (at::Tensor& part : save.parts) {
    const auto length = static_cast<std::int64_t>(part.nbytes());
    const at::Tensor place =
        bytes.narrow(0, begin, length).view(part.scalar_type()).view(part.sizes());
    if (length > 0 && part.is_contiguous() && part.device().is_cpu()) {  // at twice copy_'s rate
      std::memcpy(place.mutable_data_ptr(), part.const_data_ptr(), part.nbytes());
    } else {
      place.copy_(part);
    }
    part = place;
    begin += padded(length);
  }
}

std::vector<SaveOutcome> AsyncSaver::save(const engine::TrainState& state, const SaveInfo& info,
                                          comm::Group& world) {
  std::vector<SaveOutcome> earlier = wait_until(slots_.size() - 1);
  Slot& slot = slots_.at(next_slot_);
  next_slot_ = (next_slot_ + 1) % slots_.size();
  SaveParts parts = parts_of(state, info, world);
  copy(parts, slot.bytes);
  {
    const std::lock_guard lock(mutex_);
    slot.save = std::move(parts);
    queue_.push_back(&slot);
  }
  changed_.notify_all();
  return earlier;
}

std::vector<SaveOutcome> AsyncSaver::finish() { return wait_until(0); }

/// Outcomes of saves that need not have ended are kept for later, whether they have or not: ranks
/// would know of different ones.
std::vector<SaveOutcome> AsyncSaver::wait_until(std::size_t in_flight) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failed_ || queue_.size() <= in_flight; });
  if (failed_) std::rethrow_exception(failed_);
  const std::size_t kept = in_flight - queue_.size();
  const std::size_t told = outcomes_.size() > kept ? outcomes_.size() - kept : 0;
  const auto end = outcomes_.begin() + static_cast<std::ptrdiff_t>(told);
  std::vector<SaveOutcome> earlier(outcomes_.begin(), end);
  outcomes_.erase(outcomes_.begin(), end);
  return earlier;
}

void AsyncSaver::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
    if (queue_.empty() || failed_) return;
    Slot& slot = *queue_.front();
    lock.unlock();
    write(slot);
    lock.lock();
    slot.save.reset();
    queue_.pop_front();
    changed_.notify_all();
  }
}

void AsyncSaver::write(Slot& slot) {
  SaveOutcome outcome{slot.save->described.step};
  std::exception_ptr failed;
  try {
    outcome.left = write_save(*slot.save, checkpoints_dir_, group_, keep_).left;
  } catch (const EnvironmentFault& fault) {
    outcome.fault = fault.problems().front();
  } catch (...) {
    failed = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  failed_ = failed;
  if (!failed) outcomes_.push_back(std::move(outcome));
}

}  // namespace lockstep::checkpoint
