#include "lockstep/comm/shm/ring_writer.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "lockstep/comm/shm/reduce_kernel.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::size_t kMeasuredFromBytes = 8 * 1024;  // below, both ways cost the same
// Plain stores show their cost only where plain stores were before: once around a ring, and more.
constexpr std::uint32_t kSettling = 64;
constexpr std::uint32_t kFirstLook = 12;
constexpr double kHopeless = 5;  // times the cost of streaming: settling does not bring that down
constexpr std::uint32_t kReferenceEvery = 256;  // streamed copies while near, to compare with
constexpr std::uint32_t kFarFor = 1024;         // copies, before being near is tried again
// Times the cost of streaming. Measured: 0.9 to 2.1 near (the reader gains besides), 3 to 14 far.
constexpr double kTooDear = 2.5;
constexpr double kSmoothing = 0.2;
constexpr double kOutlier = 3;  // an interrupted copy says nothing about the memory

void smooth(double& cost, double sample) {
  if (cost == 0) {
    cost = sample;
  } else {
    cost += kSmoothing * (std::min(sample, kOutlier * cost) - cost);
  }
}

}  // namespace

void RingWriter::copy(void* out, const void* in, std::size_t bytes) {
  if (bytes < kMeasuredFromBytes) {
    std::memcpy(out, in, bytes);
    return;
  }
  const bool cached = !streams_next();
  const auto began = std::chrono::steady_clock::now();
  if (cached) {
    std::memcpy(out, in, bytes);
  } else {
    kernels().copy_stream(out, in, bytes);
    stream_fence();
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - began;
  note(cached, took.count() * 1024 / static_cast<double>(bytes));
}

bool RingWriter::streams_next() const { return !near_ || copies_ % kReferenceEvery == 1; }

void RingWriter::note(bool cached, double cost) {
  ++copies_;
  if (!cached) {
    smooth(streamed_cost_, cost);
    if (!near_ && copies_ >= kFarFor) switch_to(true);
    return;
  }
  smooth(cached_cost_, cost);
  if (copies_ < kFirstLook) return;
  const double limit = copies_ >= kSettling ? kTooDear : kHopeless;
  if (cached_cost_ > limit * streamed_cost_) switch_to(false);
}

void RingWriter::switch_to(bool near) {
  near_ = near;
  copies_ = 0;
  cached_cost_ = 0;
}

}  // namespace lockstep::comm::shm
