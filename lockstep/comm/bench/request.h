// What the ranks of `bench comm` are to time: written by the front, read by every rank.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/comm/bench/collective.h"

namespace lockstep::bench {

struct Request {
  std::string backend;              // of our groups
  std::string against;              // a second backend in the same ranks; empty = none
  std::vector<Collective> ops;      // at least one
  std::vector<std::int64_t> bytes;  // wanted; a barrier is timed once and uses none
  int iterations = 30;              // samples a size and round
  int warmup = 10;                  // calls before them
  int rounds = 5;                   // each: all of ours, then all of theirs
  int first_round = 1;
  bool pin = true;         // one rank to a core
  bool symmetric = false;  // all_reduce of symmetric memory, as gradient buckets are
};

/// Sizes that `op` is timed at, in order.
[[nodiscard]] std::vector<std::int64_t> sizes_of(const Request& request, Collective op);

[[nodiscard]] std::string to_json_text(const Request& request);
/// \throws BadData when the text is not a request.
[[nodiscard]] Request request_from_json_text(const std::string& json);

}  // namespace lockstep::bench
