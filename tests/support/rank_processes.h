// Runs one test body on n ranks, each a process started from this test binary.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "lockstep/comm/group.h"

namespace lockstep::test {

/// The host that a rank is to take itself to be on.
using HostOf = std::function<std::string(int rank)>;

/// Runs body(group) on `size` ranks (over shared memory unless told otherwise) and fails the
/// calling test when a rank fails, showing what it printed; the first failing rank ends the others.
/// The parent runs no body: it serves the store and waits (at most two minutes). Ranks are
/// processes because LibTorch's CPU generator and autograd engine are global; they re-enter the
/// same test and run only this call's body.
/// \param victim a rank that SIGKILL must end.
void run_ranks(int size, const std::function<void(comm::Group&)>& body,
               comm::Backend backend = comm::Backend::automatic, const HostOf& host_of = {},
               int victim = -1);

/// Collective, in a body of run_ranks: another group of the same ranks. \param name not "world".
[[nodiscard]] std::unique_ptr<comm::Group> join_another(const comm::Group& group,
                                                        const std::string& name);

/// True in a rank process, where code before the first run_ranks is repeated.
[[nodiscard]] bool in_rank_process();

}  // namespace lockstep::test
