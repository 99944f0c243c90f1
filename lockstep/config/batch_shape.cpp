#include "lockstep/config/batch_shape.h"

#include <algorithm>

namespace lockstep::config {
namespace {

constexpr std::int64_t kDefaultMicroBatch = 32;
constexpr double kMostSamples = 1e12;

std::string text(std::int64_t number) { return std::to_string(number); }

/// "use 96 or 128": the multiples of `unit` around `number`.
std::string nearest_multiples(std::int64_t number, std::int64_t unit) {
  const std::int64_t below = number / unit * unit;
  return below == 0 ? "use " + text(unit) : "use " + text(below) + " or " + text(below + unit);
}

bool is_power_of_two(std::int64_t number) { return number > 0 && (number & (number - 1)) == 0; }

std::int64_t power_of_two_at_most(std::int64_t number) {
  std::int64_t power = 1;
  while (power * 2 <= number) power *= 2;
  return power;
}

/// "1, 2 or 4": the rank counts that divide `leaves`, a power of two.
std::string rank_counts(std::int64_t leaves) {
  std::string list;
  for (std::int64_t n = 1; n <= leaves; n *= 2) {
    if (n > 1) list += n * 2 > leaves ? " or " : ", ";
    list += text(n);
  }
  return list;
}

class Settler {
 public:
  Settler(const RunConfig& config, int world_size) : config_(config), batch_(config.batch) {
    shape_.data_ranks = world_size;
    ranks_ = world_size;
  }

  BatchShapeResult settle() {
    check_ranks();
    check_virtual_ranks();
    if (batch_.finds_micro_batch) check_found();
    if (problems_.empty()) fill();
    return {shape_, std::move(problems_)};
  }

 private:
  void refuse(const char* code, const char* where, std::string what, std::string fix) {
    problems_.push_back({code, where, std::move(what), std::move(fix)});
  }

  void check_ranks() {
    const auto& data = config_.parallel.data;
    if (!data || *data == ranks_) return;
    refuse("LS-1005", "parallel.data",
           "parallel.data is " + text(*data) + ", but the job has " + text(ranks_) + " ranks",
           "start " + text(*data) + " ranks, or write data = \"auto\"");
  }

  void check_virtual_ranks() {
    if (!config_.parallel.virtual_ranks) return;
    const std::int64_t leaves = *config_.parallel.virtual_ranks;
    if (!is_power_of_two(leaves)) {
      const std::int64_t below = power_of_two_at_most(leaves);
      refuse("LS-1010", "parallel.virtual_ranks",
             "virtual_ranks is " + text(leaves) + ", which is not a power of two",
             "use " + text(below) + " or " + text(below * 2));
    } else if (leaves % ranks_ != 0) {
      const std::int64_t valid = power_of_two_at_most(std::min(ranks_, leaves));
      refuse("LS-1010", "parallel.virtual_ranks",
             text(ranks_) + " ranks do not divide virtual_ranks = " + text(leaves),
             "start " + text(valid) + " ranks (valid: " + rank_counts(leaves) + ")");
    }
    if (config_.run.threads != 1) {
      refuse("LS-1010", "run.threads",
             "threads is " + text(config_.run.threads) +
                 ", but equal numbers on any ranks (virtual_ranks) need 1",
             "set run.threads = 1, or leave virtual_ranks unset");
    }
  }

  void check_found() {
    if (!batch_.global_batch) {
      refuse("LS-1019", "batch.global_batch",
             "is not set, but a micro_batch that is found (\"auto\") keeps to it",
             "set batch.global_batch, the samples of one step over all ranks");
    }
    if (batch_.accumulation) {
      refuse("LS-1019", "batch.accumulation",
             "is set, but follows from a micro_batch that is found (\"auto\")",
             "remove batch.accumulation, or give batch.micro_batch a number");
    }
    if (config_.parallel.virtual_ranks) {
      refuse("LS-1019", "batch.micro_batch",
             "cannot be found (\"auto\"): parallel.virtual_ranks says how a batch is cut",
             "give batch.micro_batch a number, or leave parallel.virtual_ranks unset");
    }
  }

  /// Forwards of one rank and step when only virtual_ranks says so.
  std::int64_t default_accumulation() const {
    return config_.parallel.virtual_ranks ? *config_.parallel.virtual_ranks / ranks_ : 1;
  }

  void fill() {
    shape_.ordered = config_.parallel.virtual_ranks.has_value();
    const bool global_rules = batch_.global_batch && !(batch_.micro_batch && batch_.accumulation);
    if (global_rules && batch_.micro_batch) {
      divide("accumulation", *batch_.micro_batch, shape_.accumulation, shape_.micro_batch);
    } else if (global_rules) {
      const std::int64_t accumulation = batch_.accumulation.value_or(default_accumulation());
      divide("micro_batch", accumulation, shape_.micro_batch, shape_.accumulation);
    } else {
      multiply();
    }
    if (problems_.empty()) check_leaves();
  }

  /// global_batch = known x ranks x wanted.
  void divide(const char* wanted_name, std::int64_t known, std::int64_t& wanted,
              std::int64_t& known_field) {
    const std::int64_t global = *batch_.global_batch;
    const std::int64_t unit = known * ranks_;
    if (global % unit != 0 || global < unit) {
      refuse("LS-1009", "batch.global_batch",
             "global_batch " + text(global) + " is not " + known_text(wanted_name, known) +
                 text(ranks_) + " ranks x a whole " + wanted_name,
             nearest_multiples(global, unit));
      return;
    }
    shape_.global_batch = global;
    known_field = known;
    wanted = global / unit;
  }

  static std::string known_text(const std::string& wanted_name, std::int64_t known) {
    const bool accumulation_known = wanted_name == "micro_batch";
    if (accumulation_known && known == 1) return "";
    return (accumulation_known ? "accumulation " : "micro_batch ") + text(known) + " x ";
  }

  void multiply() {
    shape_.micro_batch = batch_.micro_batch.value_or(kDefaultMicroBatch);
    shape_.accumulation = batch_.accumulation.value_or(default_accumulation());
    const double product = static_cast<double>(shape_.micro_batch) *
                           static_cast<double>(shape_.accumulation) * static_cast<double>(ranks_);
    if (product > kMostSamples) {
      refuse("LS-1009", "batch", "micro_batch x accumulation x ranks is more than 1e12 samples",
             "use smaller numbers");
      return;
    }
    shape_.global_batch = shape_.micro_batch * shape_.accumulation * ranks_;
    if (!batch_.global_batch || *batch_.global_batch == shape_.global_batch) return;
    refuse("LS-1009", "batch.global_batch",
           "global_batch is " + text(*batch_.global_batch) + ", but micro_batch " +
               text(shape_.micro_batch) + " x accumulation " + text(shape_.accumulation) + " x " +
               text(ranks_) + " ranks is " + text(shape_.global_batch),
           "use global_batch = " + text(shape_.global_batch) + nearest_accumulation() +
               ", or drop one of the three");
  }

  /// ", or accumulation = 2": what would fit the global batch that was asked for.
  std::string nearest_accumulation() const {
    const std::int64_t global = *batch_.global_batch;
    const std::int64_t by_micro = shape_.micro_batch * ranks_;
    if (global % by_micro == 0) return " or accumulation = " + text(global / by_micro);
    const std::int64_t by_accumulation = shape_.accumulation * ranks_;
    if (global % by_accumulation == 0) {
      return " or micro_batch = " + text(global / by_accumulation);
    }
    return "";
  }

  void check_leaves() {
    shape_.leaves = shape_.global_batch / shape_.micro_batch;
    if (!shape_.ordered || shape_.leaves == *config_.parallel.virtual_ranks) return;
    const std::int64_t leaves = *config_.parallel.virtual_ranks;
    const bool micro_fits = shape_.global_batch % leaves == 0;
    refuse("LS-1010", "parallel.virtual_ranks",
           "virtual_ranks is " + text(leaves) + ", but global_batch " + text(shape_.global_batch) +
               " / micro_batch " + text(shape_.micro_batch) + " is " + text(shape_.leaves),
           (micro_fits ? "use micro_batch = " + text(shape_.global_batch / leaves)
                       : "use global_batch = " + text(shape_.micro_batch * leaves)) +
               ", or drop one of the batch numbers");
  }

  const RunConfig& config_;
  const BatchSection& batch_;
  std::int64_t ranks_ = 1;
  BatchShape shape_;
  std::vector<Problem> problems_;
};

}  // namespace

BatchShapeResult settle_batch(const RunConfig& config, int world_size) {
  LOCKSTEP_CHECK(world_size >= 1, "a job has at least one rank");
  return Settler(config, world_size).settle();
}

}  // namespace lockstep::config
