// Makes all ranks end a piece of work alike: a save or load is good only if every rank says so.
#pragma once
#include <functional>

#include "lockstep/comm/group.h"

namespace lockstep::checkpoint {

/// Collective: runs `work` on every rank and returns when it succeeded on all of them. `work` must
/// not enter a collective. \throws on every rank what the lowest failing rank threw: the same class
/// of Error with the same problems, "rank N" in front where ranks are several; an error that is not
/// ours becomes an EnvironmentFault (LS-5002).
void run_on_all(comm::Group& group, const std::function<void()>& work);

}  // namespace lockstep::checkpoint
