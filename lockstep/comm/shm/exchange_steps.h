// Large collectives that add nothing. In each step a rank puts one piece where all others read it
// (broadcast, all_gather, gather), or one piece for each of them (scatter, all_to_all).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/comm/shm/operation.h"

namespace lockstep::comm::shm {

class ExchangeSteps : public Operation {
 public:
  ExchangeSteps(const Segment& segment, RingWriter& writer, Request request);

 protected:
  /// How what goes to all ranks is stored.
  enum class Storing : std::uint8_t {
    measured,  // as the writer finds cheapest
    plain,
    streamed,
  };

  void enter(Slot& slot, const Progress& progress) override;
  bool move() override;
  bool finished() const override { return steps_known_ && sent_ == steps_ && read_ == steps_; }
  void leave(Progress& progress) override;
  [[nodiscard]] bool is_through(int other) const override;

  void store_by(Storing storing) { storing_ = storing; }
  /// \pre nothing has moved. \param step of the rings.
  void begin_at(std::uint64_t step) { first_ = step; }
  /// Copies a piece of what goes to all to where it is wanted here, too.
  void put_own(std::size_t offset, std::size_t bytes) const;
  void own_is_put() { own_copy_ = nullptr; }

 private:
  struct Outgoing {
    const std::byte* from = nullptr;
    std::size_t bytes = 0;
  };
  struct Incoming {
    std::byte* to = nullptr;
    std::size_t bytes = 0;
  };

  void plan();
  void plan_common(bool sends, bool reads_all);
  void plan_parts();
  void learn_steps();
  void compare_counts() const;
  bool send();
  void store_common(std::byte* to, std::size_t offset, std::size_t bytes);
  bool read();
  [[nodiscard]] std::size_t turn(int reader, int writer) const;  // place of a reader's piece

  Storing storing_ = Storing::measured;
  bool individual_;  // a piece for each of the others, not one for all
  bool steps_known_ = false;
  std::uint64_t first_ = 0;  // step of the rings at which this operation began
  std::uint64_t steps_ = 0;
  std::uint64_t sent_ = 0;  // steps done
  std::uint64_t read_ = 0;
  std::byte* own_copy_ = nullptr;   // where what goes to all is wanted here, too
  std::vector<Outgoing> outgoing_;  // to each rank; the first one goes to all unless individual_
  std::vector<Incoming> incoming_;  // from each rank
};

}  // namespace lockstep::comm::shm
