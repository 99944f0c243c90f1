// The other side of `bench comm --against mpi`: Open MPI's mpirun and the program it starts.
#pragma once
#include <string>
#include <vector>

#include "lockstep/cli/command.h"
#include "lockstep/comm/bench/request.h"

namespace lockstep::cli {

struct MpiPeer {
  std::string mpirun;   // a path
  std::string program;  // lockstep-mpi-peer, which stands beside this program
};

/// \throws EnvironmentFault naming the packages when one of the two is missing.
[[nodiscard]] MpiPeer find_mpi_peer(const Context& context);

/// Times what `request` asks for in one round, on `ranks` ranks of this host. mpirun ends it when
/// it takes several times longer than it could.
[[nodiscard]] std::vector<std::string> mpi_command(const MpiPeer& peer,
                                                   const bench::Request& request, int ranks);

}  // namespace lockstep::cli
