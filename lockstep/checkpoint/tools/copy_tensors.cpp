#include "lockstep/checkpoint/tools/copy_tensors.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/error.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kSlots = 2;
constexpr std::uint64_t kSlotBytes = kCopyBytes / kSlots;

/// Bytes under way: a part of one large tensor, or whole small ones, thousands for one handover.
/// Parts begin at multiples of kSlotBytes, so that a source that verifies blocks reads none twice.
struct Slot {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> parts;  // bytes of each tensor
};

/// Full slots from the reader to the writer, empty ones back.
class Ring {
 public:
  /// The next slot to fill; nullptr when nobody wants it any more.
  Slot* wait_for_empty() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_stopped_ || filled_ - emptied_ < kSlots; });
    return is_stopped_ ? nullptr : &slots_.at(filled_ % kSlots);
  }
  void put() {
    change([&] { ++filled_; });
  }
  /// The reader's last word.
  void end(std::exception_ptr failure) {
    change([&] {
      is_ended_ = true;
      failure_ = std::move(failure);
    });
  }

  /// The next full slot; nullptr behind the last one. \throws what the reader failed with.
  Slot* wait_for_full() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_ended_ || filled_ > emptied_; });
    if (filled_ > emptied_) return &slots_.at(emptied_ % kSlots);
    if (failure_) std::rethrow_exception(failure_);
    return nullptr;
  }
  void take() {
    change([&] { ++emptied_; });
  }
  /// The writer's last word.
  void stop() {
    change([&] { is_stopped_ = true; });
  }

 private:
  template <typename Change>
  void change(const Change& what) {
    const std::scoped_lock lock(mutex_);
    what();
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Slot, kSlots> slots_;
  std::uint64_t filled_ = 0;
  std::uint64_t emptied_ = 0;
  bool is_ended_ = false;
  bool is_stopped_ = false;
  std::exception_ptr failure_;
};

/// Where each tensor of the sink's order is in the source.
std::vector<std::size_t> places(const TensorSource& source, const TensorSink& sink,
                                const CopyOptions& options) {
  std::unordered_map<std::string_view, std::size_t> by_name;
  const auto stored = source.tensors();
  for (std::size_t i = 0; i < stored.size(); ++i) by_name.emplace(stored[i].name, i);
  std::vector<std::size_t> places;
  for (const StoredTensor& wanted : sink.order()) {
    const auto renamed = options.renamed.find(wanted.name);
    const std::string& name = renamed == options.renamed.end() ? wanted.name : renamed->second;
    const auto found = by_name.find(name);
    LOCKSTEP_CHECK(found != by_name.end(), "no tensor " + name + " to copy");
    const StoredTensor& tensor = stored[found->second];
    LOCKSTEP_CHECK(tensor.dtype == wanted.dtype && tensor.bytes() == wanted.bytes(),
                   "another type or size: " + name);
    places.push_back(found->second);
  }
  return places;
}

class Reader {
 public:
  Reader(const TensorSource& source, const std::vector<std::size_t>& places)
      : source_(source), places_(places) {}

  /// Fills the slot. \returns false when nothing was left for it.
  bool fill(Slot& slot) {
    slot.bytes.resize(kSlotBytes);
    slot.parts.clear();
    std::size_t used = 0;
    while (next_ < places_.size() && used < kSlotBytes) {
      const std::size_t index = places_[next_];
      const std::uint64_t left = source_.tensors()[index].bytes() - done_;
      if (left > kSlotBytes - used && used > 0) break;
      const auto part = static_cast<std::size_t>(std::min(left, kSlotBytes));
      if (part > 0) {
        source_.read(index, done_, std::span(slot.bytes).subspan(used, part));
        slot.parts.push_back(part);
      }
      used += part;
      done_ += part;
      if (part == left) {
        ++next_;
        done_ = 0;
      }
    }
    return used > 0;
  }

  void run(Ring& ring) {
    try {
      for (Slot* slot = ring.wait_for_empty(); slot != nullptr; slot = ring.wait_for_empty()) {
        if (!fill(*slot)) break;
        ring.put();
      }
      ring.end(nullptr);
    } catch (...) {
      ring.end(std::current_exception());
    }
  }

 private:
  const TensorSource& source_;
  const std::vector<std::size_t>& places_;
  std::size_t next_ = 0;    // in places_
  std::uint64_t done_ = 0;  // bytes of that tensor
};

void write_all(Ring& ring, TensorSink& sink, std::uint64_t bytes_all, const CopyOptions& options) {
  std::uint64_t bytes_done = 0;
  for (Slot* slot = ring.wait_for_full(); slot != nullptr; slot = ring.wait_for_full()) {
    std::span<const std::byte> rest(slot->bytes);
    for (const std::size_t part : slot->parts) {
      sink.write(rest.first(part));
      rest = rest.subspan(part);
      bytes_done += part;
    }
    ring.take();
    if (options.progress && bytes_done < bytes_all) options.progress(bytes_done, bytes_all);
  }
  if (options.progress) options.progress(bytes_done, bytes_all);
}

/// Starts the reader and ends it, however the writing ends.
class ReadingThread {
 public:
  ReadingThread(Reader& reader, Ring& ring) : ring_(ring) {
    const BlockedSignals blocked;  // they are for the thread that waits for them
    thread_ = std::thread([&reader, &ring] { reader.run(ring); });
  }
  ReadingThread(const ReadingThread&) = delete;
  ReadingThread& operator=(const ReadingThread&) = delete;
  ~ReadingThread() {
    ring_.stop();
    thread_.join();
  }

 private:
  Ring& ring_;
  std::thread thread_;
};

}  // namespace

void copy_tensors(const TensorSource& source, TensorSink& sink, const CopyOptions& options) {
  const std::vector<std::size_t> from = places(source, sink, options);
  std::uint64_t bytes_all = 0;
  for (const std::size_t index : from) bytes_all += source.tensors()[index].bytes();
  Ring ring;
  Reader reader(source, from);
  const ReadingThread thread(reader, ring);
  write_all(ring, sink, bytes_all, options);
}

}  // namespace lockstep::checkpoint
