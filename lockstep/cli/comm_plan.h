// What `bench comm` is asked to time, read from its flags.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/cli/args.h"
#include "lockstep/comm/bench/request.h"

namespace lockstep::cli {

struct CommPlan {
  std::vector<int> ranks;
  bench::Request request;    // of every rank count; `against` only where it is a backend of ours
  bool against_mpi = false;  // the other side is a program
  bool no_pin = false;

  /// Name of the other side; empty = none.
  [[nodiscard]] std::string against() const { return against_mpi ? "mpi" : request.against; }
};

/// \throws UsageError with every fault; a misspelt word with the nearest one.
[[nodiscard]] CommPlan comm_plan(const Args& args);

/// "4,1Ki,64Mi" in ascending order, each once: bytes, with the suffixes of parse_bytes(), where
/// "Ki" is short for "KiB". Faults are added to `problems`.
[[nodiscard]] std::vector<std::int64_t> parse_sizes(const std::string& text,
                                                    std::vector<Problem>& problems);

/// Samples that one round of one side reports.
[[nodiscard]] std::size_t samples_a_round(const bench::Request& request);

}  // namespace lockstep::cli
