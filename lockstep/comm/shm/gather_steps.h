// Large all_gathers: through the rings, or, where all ranks can read each other's memory, straight
// from the others' inputs. All take one way, the one that has been cheapest.
#pragma once
#include <chrono>
#include <vector>

#include "lockstep/comm/shm/exchange_steps.h"
#include "lockstep/comm/shm/gather_costs.h"
#include "lockstep/comm/shm/peer_memory.h"

namespace lockstep::comm::shm {

/// What the all_gathers of one rank share.
struct Gathering {
  explicit Gathering(const Segment& segment) : peers(segment) {}

  PeerMemory peers;
  GatherCosts costs;
};

/// A rank's input stays as it is until every other rank has read it: all end together. What a rank
/// cannot read, all ranks send through the rings after all.
class GatherSteps : public ExchangeSteps {
 public:
  /// \pre there are other ranks.
  GatherSteps(const Segment& segment, RingWriter& writer, Gathering& gathering, Request request);

 private:
  enum class Stage : std::uint8_t { meeting, in_steps, reading, reading_of_others, all_read };

  void enter(Slot& slot, const Progress& progress) override;
  bool move() override;
  bool finished() const override;
  void leave(Progress& progress) override;
  [[nodiscard]] bool is_through(int other) const override;

  void choose_way();
  bool move_on();
  bool put_own_piece();
  bool read_piece();
  bool end_reading();
  bool look_at_others();
  [[nodiscard]] std::size_t part_bytes() const { return request_.count * element_bytes(); }

  Gathering& gathering_;
  Stage stage_ = Stage::meeting;
  GatherWay way_ = GatherWay::plain;
  std::vector<GatherOffer> offers_;  // by rank
  std::uint64_t step_ = 0;           // of the rings: the one that reading stands for
  int reads_from_ = 1;               // ranks further on, round the group
  std::size_t read_bytes_ = 0;       // of that one's part
  bool has_failed_ = false;          // to read
  bool expects_reading_ = false;     // then its own part can be put while others are still to come
  std::size_t own_bytes_ = 0;        // of its own part that are put
  std::chrono::nanoseconds took_{0};
};

}  // namespace lockstep::comm::shm
