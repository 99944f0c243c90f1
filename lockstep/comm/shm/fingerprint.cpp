#include "lockstep/comm/shm/fingerprint.h"

#include <array>

namespace lockstep::comm::shm {
namespace {

constexpr int kTypeShift = 8;
constexpr int kReductionShift = 16;
constexpr int kUnevenShift = 24;
constexpr int kOrderedShift = 25;
constexpr int kRootShift = 32;

}  // namespace

std::string_view name(Collective collective) {
  static constexpr std::array<std::string_view, 9> kNames{
      "all_reduce", "reduce",  "reduce_scatter", "broadcast", "all_gather",
      "gather",     "scatter", "all_to_all",     "barrier"};
  const auto row = static_cast<std::size_t>(collective);
  return row < kNames.size() ? kNames[row] : "unknown collective";
}

Fingerprint make_fingerprint(const CollectiveKind& kind, std::uint64_t count) {
  return {static_cast<std::uint64_t>(kind.collective) |
              static_cast<std::uint64_t>(kind.type) << kTypeShift |
              static_cast<std::uint64_t>(kind.reduction) << kReductionShift |
              static_cast<std::uint64_t>(kind.uneven) << kUnevenShift |
              static_cast<std::uint64_t>(kind.ordered) << kOrderedShift |
              static_cast<std::uint64_t>(kind.root) << kRootShift,
          kind.uneven ? 0 : count};
}

std::string describe(const Fingerprint& fingerprint) {
  const auto collective = static_cast<Collective>(fingerprint.kind & 0xffU);
  const auto type = static_cast<ElementType>(fingerprint.kind >> kTypeShift & 0xffU);
  const auto reduction = static_cast<Reduction>(fingerprint.kind >> kReductionShift & 0xffU);
  std::string text(name(collective));
  if (collective == Collective::barrier) return text;
  if (collective <= Collective::reduce_scatter) {
    const bool ordered = (fingerprint.kind >> kOrderedShift & 1U) != 0;
    text += " (" + std::string(name(reduction)) + (ordered ? " in tree order)" : ")");
  }
  text += " of ";
  if ((fingerprint.kind >> kUnevenShift & 1U) == 0) text += std::to_string(fingerprint.count) + " ";
  text += name(type);
  const bool rooted = collective == Collective::reduce || collective == Collective::broadcast ||
                      collective == Collective::gather || collective == Collective::scatter;
  if (rooted) text += " with root " + std::to_string(fingerprint.kind >> kRootShift);
  return text;
}

std::string entry_text(int rank, const Fingerprint& fingerprint, std::string_view site) {
  std::string text = "rank " + std::to_string(rank) + " entered " + describe(fingerprint);
  if (!site.empty()) text += " at " + std::string(site);
  return text;
}

}  // namespace lockstep::comm::shm
