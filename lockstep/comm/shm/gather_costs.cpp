#include "lockstep/comm/shm/gather_costs.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace lockstep::comm::shm {
namespace {

// Of each way in a row: the first finds in the caches what another way has left there.
constexpr std::uint64_t kFirstTrials = 3;
constexpr std::uint64_t kTrials = 2;
constexpr std::uint64_t kTrialsEvery = 64;  // all_gathers of one size, one way after another
constexpr float kSmoothing = 0.25F;
constexpr float kOutlier = 3;  // an interrupted copy says nothing about the memory

// What is shown in a slot.
struct Shown {
  std::uint64_t address;
  std::array<float, kGatherWays> costs;
  std::uint8_t tries;
  std::uint8_t is_trial;
  std::uint8_t reads;
};
static_assert(sizeof(Shown) <= kInlineBytes);

}  // namespace

void write_offer(Slot& slot, const GatherOffer& offer) {
  Shown shown{};
  shown.address = offer.address;
  shown.costs = offer.costs;
  shown.tries = static_cast<std::uint8_t>(offer.tries);
  shown.is_trial = offer.is_trial ? 1 : 0;
  shown.reads = offer.reads ? 1 : 0;
  std::memcpy(slot.payload, &shown, sizeof shown);
}

GatherOffer read_offer(const Slot& slot) {
  Shown shown{};
  std::memcpy(&shown, slot.payload, sizeof shown);
  GatherOffer offer;
  offer.address = shown.address;
  offer.costs = shown.costs;
  offer.tries = static_cast<GatherWay>(std::min<std::size_t>(shown.tries, kGatherWays - 1));
  offer.is_trial = shown.is_trial != 0;
  offer.reads = shown.reads != 0;
  return offer;
}

GatherWay agreed_way(std::span<const GatherOffer> offers) {
  const bool all_read = std::all_of(offers.begin(), offers.end(),
                                    [](const GatherOffer& offer) { return offer.reads; });
  const auto is_open = [&](GatherWay way) { return way != GatherWay::reading || all_read; };
  const GatherOffer& first = offers.front();
  if (first.is_trial && is_open(first.tries)) return first.tries;
  GatherWay best = GatherWay::plain;
  float least = 0;
  for (std::size_t w = 0; w < kGatherWays; ++w) {
    const auto way = static_cast<GatherWay>(w);
    float sum = 0;
    bool is_known = is_open(way);
    for (const GatherOffer& offer : offers) {
      is_known = is_known && offer.costs[w] > 0;
      sum += offer.costs[w];
    }
    if (!is_known || (least > 0 && sum >= least)) continue;
    best = way;
    least = sum;
  }
  return best;
}

GatherCosts::Class& GatherCosts::class_of(std::size_t part_bytes) {
  const auto width = static_cast<std::size_t>(std::bit_width(part_bytes / kDirectBytes));
  return classes_[std::min(width, classes_.size() - 1)];
}

GatherOffer GatherCosts::next_offer(std::size_t part_bytes, bool reads) {
  Class& own = class_of(part_bytes);
  const std::uint64_t number = own.entered++;
  const std::uint64_t ways = reads ? kGatherWays : kGatherWays - 1;
  GatherOffer offer;
  offer.costs = own.costs;
  offer.reads = reads;
  const bool is_early = number < kFirstTrials * ways;
  offer.is_trial = is_early || number % kTrialsEvery < kTrials;
  const std::uint64_t trial = is_early ? number / kFirstTrials : number / kTrialsEvery;
  offer.tries = static_cast<GatherWay>(ways - 1 - trial % ways);  // reading is never dear: first
  return offer;
}

void GatherCosts::note(GatherWay way, std::size_t part_bytes, double took_ns) {
  float& cost = class_of(part_bytes).costs[static_cast<std::size_t>(way)];
  const auto sample = static_cast<float>(took_ns * 1024 / static_cast<double>(part_bytes));
  if (cost == 0 || sample < cost) {  // what has been as cheap as this can be so again
    cost = sample;
  } else {
    cost += kSmoothing * (std::min(sample, kOutlier * cost) - cost);
  }
}

}  // namespace lockstep::comm::shm
