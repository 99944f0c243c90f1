#include "lockstep/data/loader.h"

#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/memory/category.h"

namespace lockstep::data {
namespace {

constexpr std::chrono::seconds kStepDeadline{300};
// Waking a worker costs as much as making a small step: many of those are made at a time.
constexpr std::int64_t kBytesAhead = std::int64_t{1} << 20;
constexpr std::int64_t kMostStepsAhead = 16;

std::int64_t bytes_of(const StepData& step) {
  std::int64_t bytes = 0;
  for (const Batch& batch : step.micro_batches) {
    for (const at::Tensor* tensor : {&batch.input, &batch.target}) {
      if (tensor->defined()) bytes += static_cast<std::int64_t>(tensor->nbytes());
    }
  }
  return bytes;
}

// One step on its way. It stands in the queue from the moment a worker takes it on, so the queue is
// in order whoever finishes first.
struct Slot {
  Position position;
  LeafRange range;
  std::atomic<bool> dropped{false};  // nobody will ask for it: stop making it
  bool done = false;
  StepData data;
  std::exception_ptr error;
};

void check(const LeafRange& range) {
  LOCKSTEP_CHECK(range.first >= 0 && range.count >= 0 && range.first + range.count <= range.leaves,
                 "leaves outside of the step");
}

// Signals are for the training thread, which waits for them in known places.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

struct Loader::Impl {
  Impl(const Dataset& data, const Sampler& steps, LeafRange leaves, LoaderOptions how)
      : dataset(data), sampler(steps), options(how), range(leaves) {
    check(range);
    depth = static_cast<std::size_t>(std::max(1, options.prefetch));
    try {
      for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { work(); });
    } catch (...) {  // no more threads to be had: those that run must end before the members do
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      drop_all();
    }
    room.notify_all();
    for (std::thread& thread : threads) thread.join();
  }

  void drop_all() {
    for (const auto& slot : slots) slot->dropped = true;
    slots.clear();
  }

  /// Whether a worker may take on a step. A full queue of small steps is left alone until half of
  /// it is used up.
  [[nodiscard]] bool has_room() {
    const bool has_small_steps = depth > static_cast<std::size_t>(std::max(1, options.prefetch));
    if (slots.size() >= depth) is_refilling = false;
    if (slots.size() <= (has_small_steps ? depth / 2 : depth - 1)) is_refilling = true;
    return is_refilling;
  }

  /// After a step of `bytes` was made; the caller holds the mutex.
  void adapt_depth(std::int64_t bytes) {
    const std::int64_t small =
        std::min(kMostStepsAhead, kBytesAhead / std::max<std::int64_t>(1, bytes));
    depth = static_cast<std::size_t>(std::max<std::int64_t>({1, options.prefetch, small}));
  }

  /// Takes the next step; the caller holds the mutex.
  std::shared_ptr<Slot> take_on() {
    auto slot = std::make_shared<Slot>();
    slot->position = next_position;
    slot->range = range;
    next_position = sampler.after(next_position);
    return slot;
  }

  void work() {
    block_signals();
    std::unique_lock lock(mutex);
    for (;;) {
      room.wait(lock, [this] { return stopping || has_room(); });
      if (stopping) return;
      const std::shared_ptr<Slot> slot = take_on();
      slots.push_back(slot);
      lock.unlock();
      fill(*slot);
      lock.lock();
      slot->done = true;
      if (is_waiting) ready.notify_all();
      adapt_depth(bytes_of(slot->data));
    }
  }

  void fill(Slot& slot) {
    try {
      slot.data = make_step(slot);
    } catch (...) {
      slot.error = std::current_exception();
    }
  }

  StepData make_step(const Slot& slot) {
    const std::vector<std::int64_t> ids = step_ids(slot.position);
    const std::uint64_t key = augment_key(options.seed, slot.position.epoch);
    const memory::Scope scope(memory::Category::buffers);
    const LeafRange& part = slot.range;
    StepData step;
    step.global_samples = static_cast<std::int64_t>(ids.size());
    step.after = sampler.after(slot.position);
    for (std::int64_t leaf = part.first; leaf < part.first + part.count; ++leaf) {
      if (slot.dropped) break;
      step.micro_batches.push_back(dataset.collate(part_of(ids, leaf, part.leaves), key));
    }
    return step;
  }

  // The permutation of an epoch is made here, apart from the queue's mutex: next() need not wait.
  std::vector<std::int64_t> step_ids(const Position& position) {
    const std::lock_guard lock(sampler_mutex);
    return sampler.step_ids(position);
  }

  std::shared_ptr<Slot> wait_for_front() {
    std::unique_lock lock(mutex);
    is_waiting = true;
    const bool in_time = ready.wait_for(lock, kStepDeadline,
                                        [this] { return !slots.empty() && slots.front()->done; });
    is_waiting = false;
    if (!in_time) {
      throw EnvironmentFault(
          {"LS-2009", "data",
           "the next batch was not ready after " + std::to_string(kStepDeadline.count()) + " s",
           "is the disk of the data reachable, and the machine not suspended?"});
    }
    std::shared_ptr<Slot> slot = std::move(slots.front());
    slots.pop_front();
    if (has_room()) room.notify_one();
    return slot;
  }

  std::shared_ptr<Slot> make_now() {
    const std::shared_ptr<Slot> slot = take_on();
    fill(*slot);
    return slot;
  }

  const Dataset& dataset;
  const Sampler sampler;
  const LoaderOptions options;

  std::mutex sampler_mutex;
  std::mutex mutex;               // guards all below
  std::condition_variable room;   // the queue is not full, or stopping
  std::condition_variable ready;  // a slot is done
  std::deque<std::shared_ptr<Slot>> slots;
  Position next_position;  // of the step nobody has taken on yet
  LeafRange range;         // that steps are made of
  std::size_t depth = 1;   // steps made ahead
  bool is_refilling = true;
  bool is_waiting = false;  // next() for the front
  bool stopping = false;
  std::vector<std::thread> threads;  // last: they use all above
};

Loader::Loader(const Dataset& dataset, const Sampler& sampler, LeafRange range,
               LoaderOptions options)
    : impl_(std::make_unique<Impl>(dataset, sampler, range, options)) {}

Loader::~Loader() = default;

void Loader::seek(const Position& position) { seek(position, impl_->range); }

void Loader::seek(const Position& position, const LeafRange& range) {
  check(range);
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->drop_all();
    impl_->next_position = position;
    impl_->range = range;
  }
  impl_->room.notify_all();
}

StepData Loader::next() {
  const std::shared_ptr<Slot> slot =
      impl_->threads.empty() ? impl_->make_now() : impl_->wait_for_front();
  if (slot->error) std::rethrow_exception(slot->error);
  return std::move(slot->data);
}

}  // namespace lockstep::data
