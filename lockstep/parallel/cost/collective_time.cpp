#include "lockstep/parallel/cost/collective_time.h"

#include <algorithm>
#include <cmath>

namespace lockstep::parallel {
namespace {

double as_double(std::int64_t number) { return static_cast<double>(number); }

/// How often the bytes go round: all_reduce is a reduce_scatter and an all_gather.
double rounds(Collective collective) { return collective == Collective::all_reduce ? 2 : 1; }

double ring(Collective collective, double bytes, std::int64_t ranks, const LinkModel& link) {
  const double steps = rounds(collective) * as_double(ranks - 1);
  return sent_bytes(collective, bytes, ranks) / link.bytes_per_s() + steps * link.latency_s;
}

/// Two trees share the bytes, so that each rank sends and receives all the time.
double tree(Collective collective, double bytes, std::int64_t ranks, const LinkModel& link) {
  const double depth = std::ceil(std::log2(as_double(ranks)));
  return rounds(collective) * (bytes / link.bytes_per_s() + 2 * depth * link.latency_s);
}

/// A host's ranks have a part each and send it through their own card: both levels at once, so the
/// slower one counts.
double hierarchical(Collective collective, double bytes, const Group& group,
                    const Machine& machine) {
  const auto per_host = std::min(group.per_host, group.ranks);
  const double part = bytes / as_double(per_host);
  const double across = std::min(ring(collective, part, group.hosts(), machine.between),
                                 tree(collective, part, group.hosts(), machine.between));
  if (per_host == 1) return across;
  return std::max(across, ring(collective, bytes, per_host, machine.inside));
}

}  // namespace

Group group_of(std::int64_t ranks, std::int64_t stride, const Machine& machine) {
  const std::int64_t fits = std::max<std::int64_t>(1, machine.devices_per_host / stride);
  return {ranks, std::min(ranks, fits)};
}

double sent_bytes(Collective collective, double bytes, std::int64_t ranks) {
  if (ranks <= 1) return 0;
  const double others = as_double(ranks - 1) / as_double(ranks);
  return rounds(collective) * bytes * (collective == Collective::broadcast ? 1 : others);
}

double collective_time(Collective collective, double bytes, const Group& group,
                       const Machine& machine, Algorithm algorithm) {
  if (group.ranks <= 1 || !(bytes > 0)) return 0;
  const bool one_host = group.hosts() == 1;
  const LinkModel& slowest = one_host ? machine.inside : machine.between;
  switch (algorithm) {
    case Algorithm::linear:
      return as_double(group.ranks) * (bytes / slowest.bytes_per_s() + slowest.latency_s);
    case Algorithm::ring:
      return ring(collective, bytes, group.ranks, slowest);
    case Algorithm::tree:
      return tree(collective, bytes, group.ranks, slowest);
    case Algorithm::hierarchical:
    case Algorithm::best:
      break;
  }
  if (one_host && collective == Collective::all_to_all) {
    return ring(collective, bytes, group.ranks, slowest);
  }
  if (one_host) {
    return std::min(ring(collective, bytes, group.ranks, slowest),
                    tree(collective, bytes, group.ranks, slowest));
  }
  return hierarchical(collective, bytes, group, machine);
}

}  // namespace lockstep::parallel
