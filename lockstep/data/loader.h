// Makes the micro-batches of this rank's leaves ahead of time, in the background.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"

namespace lockstep::data {

/// The leaves [first, first + count) of `leaves` that this rank computes each step.
struct LeafRange {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t leaves = 1;
};

struct StepData {
  std::vector<Batch> micro_batches;  // one per leaf of the range, in order; some may be empty
  std::int64_t global_samples = 0;   // of this step over all ranks
  Position after;                    // where training stands once this step is done
};

struct LoaderOptions {
  std::uint64_t seed = 1;
  int workers = 1;   // background threads; 0 = made in next()
  int prefetch = 2;  // steps made ahead; up to 16 of steps that are 1 MiB together
};

class Loader {
 public:
  /// \param dataset outlives the loader.
  Loader(const Dataset& dataset, const Sampler& sampler, LeafRange range, LoaderOptions options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  /// Starts (again) at `position`; batches made ahead are dropped.
  void seek(const Position& position);
  /// The same, with other leaves from there on.
  void seek(const Position& position, const LeafRange& range);
  /// The next step's micro-batches; waits for the background. Rethrows what a worker threw.
  [[nodiscard]] StepData next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep::data
