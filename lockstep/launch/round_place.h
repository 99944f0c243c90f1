// From a round of the whole job to what one host's ranks are told.
#pragma once
#include "lockstep/launch/local_job.h"
#include "lockstep/rendezvous/round.h"

namespace lockstep::launch {

/// Ranks of one role are numbered through all hosts, in the order of their groups.
[[nodiscard]] JobPlace place_in(const rendezvous::Round& round);

}  // namespace lockstep::launch
