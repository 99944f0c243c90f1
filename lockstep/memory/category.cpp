#include "lockstep/memory/category.h"

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>
#include <numeric>
#include <string>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/memory/block_cache.h"

namespace lockstep::memory {
namespace {

// What nobody tagged: batches made by loader threads, temporaries of set-up code.
thread_local Category category_here = Category::buffers;

// Never destroyed: tensors with static lifetime are freed after it would be.
BlockCache& cache() {
  static auto* const blocks = new BlockCache;
  return *blocks;
}

void free_payload(void* payload) { cache().free(payload); }

class TaggingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* const payload = bytes == 0 ? nullptr : cache().allocate(bytes, category_here);
    return {payload, payload, &free_payload, c10::Device(c10::kCPU)};
  }
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &free_payload; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

std::int64_t status_bytes(const std::string& key) {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(key)) return std::stoll(line.substr(key.size())) * 1024;
  }
  throw EnvironmentFault({"LS-3091", "/proc/self/status", "has no line " + key,
                          "mount /proc: resident memory is read there"});
}

std::int64_t sum(const std::array<std::int64_t, kCategoryCount>& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

}  // namespace

std::string_view name(Category category) {
  static constexpr std::array<std::string_view, kCategoryCount> kNames{
      "parameters", "gradients", "optimizer", "activations", "buffers", "communication", "runtime"};
  return kNames.at(static_cast<std::size_t>(category));
}

void install() {
  static TaggingAllocator* const allocator = [] {
    auto* const made = new TaggingAllocator;  // LibTorch keeps the pointer for good
    c10::SetAllocator(c10::kCPU, made, std::numeric_limits<std::uint8_t>::max());
    return made;
  }();
  LOCKSTEP_CHECK(c10::GetAllocator(c10::kCPU) == allocator, "another CPU allocator was installed");
}

Scope::Scope(Category category) noexcept : outer_(std::exchange(category_here, category)) {}

Category category_of_thread() noexcept { return category_here; }

Scope::~Scope() { category_here = outer_; }

Held::Held(Category category, std::int64_t bytes) : category_(category), bytes_(bytes) {
  cache().count_held(category_, bytes_);
}

Held::~Held() { cache().count_held(category_, -bytes_); }

Usage usage() {
  constexpr auto runtime = static_cast<std::size_t>(Category::runtime);
  Usage out = cache().usage();
  const auto left = [](std::int64_t resident, const auto& tagged) {
    return std::max<std::int64_t>(0, resident - sum(tagged));
  };
  out.current_bytes[runtime] = left(status_bytes("VmRSS:"), out.current_bytes);
  out.peak_bytes[runtime] = left(peak_resident_bytes(), out.peak_bytes);
  return out;
}

void reset_peak() { cache().reset_peak(); }

void release_cached() { cache().release_cached(); }

void limit_resident(std::int64_t bytes) {
  const auto held = static_cast<std::int64_t>(cache().held_bytes());
  const std::int64_t beside = std::max<std::int64_t>(0, status_bytes("VmRSS:") - held);
  cache().set_budget(bytes == 0
                         ? std::numeric_limits<std::size_t>::max()
                         : static_cast<std::size_t>(std::max<std::int64_t>(0, bytes - beside)));
}

NoLimit::NoLimit() : budget_bytes_(cache().set_budget(std::numeric_limits<std::size_t>::max())) {}

NoLimit::~NoLimit() { cache().set_budget(budget_bytes_); }

std::int64_t peak_needed_bytes() {
  const Usage now = usage();
  const std::int64_t runtime = now.current_bytes[static_cast<std::size_t>(Category::runtime)];
  return now.peak_total_bytes + std::max<std::int64_t>(0, runtime - now.cached_bytes);
}

void forget_peaks() {
  cache().release_cached();
  cache().reset_peak(/*cache_too=*/true);
  // The kernel takes VmHWM back to what is resident now (man proc_pid_clear_refs).
  std::ofstream("/proc/self/clear_refs") << "5" << std::flush;
}

bool is_out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return true;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr) return true;
  if (const auto* ours = dynamic_cast<const Error*>(&error)) {
    return ours->problems().front().code == kOutOfMemoryCode;
  }
  // oneDNN says no more than what it could not do, and its error type is not to be had here. What
  // it has no code for fails at another place ("... a primitive descriptor ...").
  constexpr auto kOneDnn = std::to_array<std::string_view>(
      {"could not create a primitive", "could not execute a primitive",
       "could not create a memory object", "could not create a memory"});
  const std::string_view what = error.what();
  return std::find(kOneDnn.begin(), kOneDnn.end(), what) != kOneDnn.end() ||
         what.find("can't allocate memory") != std::string_view::npos;  // c10::alloc_cpu
}

std::int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

std::int64_t recent_peak_resident_bytes() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kFresh{10};
  static std::mutex mutex;
  static Clock::time_point read_at;  // epoch: never
  static std::int64_t peak = 0;
  const std::lock_guard lock(mutex);
  if (const auto now = Clock::now(); now - read_at >= kFresh) {
    peak = peak_resident_bytes();
    read_at = now;
  }
  return peak;
}

}  // namespace lockstep::memory
