// A group over Gloo that carries out a part of what a larger group does.
#pragma once
#include <functional>
#include <memory>
#include <string_view>

#include "lockstep/comm/control/channel.h"
#include "lockstep/comm/group.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/shm/layout.h"

namespace lockstep::comm {

/// What the ranks of a group over Gloo compare.
enum class Compared : std::uint8_t {
  each,      // every collective that is issued
  declared,  // what its owner declares; those issued after that are steps of it
};

class GlooPart : public Group {
 public:
  /// Collective. What the steps issued from now on carry out; their wait() returns when all ranks
  /// have declared the same. Costs no message of its own where a step follows. \param site where
  /// the caller of the larger group stands.
  virtual void declare(const shm::Fingerprint& whole, std::string_view site) = 0;
  /// Waits until all ranks have declared what this one declared last. \throws as Work::wait().
  virtual void confirm() = 0;
  /// Ends the group on all its ranks, in these words. Thread-safe, does not block.
  virtual void end(const control::End& reason) = 0;

 protected:
  using Group::Group;
};

/// Collective. Its errors carry the plain cause where `compared` is `declared`, and like those of
/// make_gloo_group() else. \param on_end is called from a thread of the group's own; not once the
/// group has gone.
[[nodiscard]] std::unique_ptr<GlooPart> make_gloo_part(const GroupOptions& options, Meeting meeting,
                                                       Compared compared,
                                                       control::OnEnd on_end = {});

}  // namespace lockstep::comm
