#include "lockstep/cli/mpi_peer.h"

#include <unistd.h>

#include <filesystem>

#include "lockstep/launch/child_process.h"

namespace lockstep::cli {
namespace {

// Slower than any memory; what a round moves takes less than this many seconds.
constexpr std::int64_t kBytesPerSecond = 20'000'000;
constexpr std::int64_t kStartSeconds = 120;

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw EnvironmentFault({"LS-7054", what, why,
                          "apt-get install openmpi-bin libopenmpi-dev, then `make build` (in one: "
                          "`make bench-comm`); or use --against gloo"});
}

std::string find_mpirun(const Context& context) {
  const char* path = context.get_env ? context.get_env("PATH") : nullptr;
  try {
    return launch::find_program("mpirun", path == nullptr ? "/usr/bin:/bin" : path);
  } catch (const EnvironmentFault&) {
    refuse("mpirun", "is not installed");
  }
}

std::int64_t time_limit_s(const bench::Request& request, int ranks) {
  std::int64_t bytes = 0;
  for (const std::int64_t size : request.bytes) bytes += size;
  const auto calls = std::int64_t{request.iterations} + request.warmup;
  const auto ops = static_cast<std::int64_t>(request.ops.size());
  return kStartSeconds + bytes / kBytesPerSecond * calls * ops * ranks;
}

std::string names_of(const std::vector<bench::Collective>& ops) {
  std::string names;
  for (const auto op : ops) names += (names.empty() ? "" : ",") + std::string(bench::name_of(op));
  return names;
}

}  // namespace

MpiPeer find_mpi_peer(const Context& context) {
  MpiPeer peer;
  peer.program = std::filesystem::path(context.program_path).replace_filename("lockstep-mpi-peer");
  peer.mpirun = find_mpirun(context);
  if (::access(peer.program.c_str(), X_OK) != 0) {
    refuse(peer.program, "was not built: no mpicc was there");
  }
  return peer;
}

std::vector<std::string> mpi_command(const MpiPeer& peer, const bench::Request& request,
                                     int ranks) {
  std::vector<std::string> command{peer.mpirun,
                                   "--allow-run-as-root",  // containers have no other user
                                   "--oversubscribe",
                                   "--bind-to",
                                   request.pin ? "core" : "none",
                                   "--timeout",
                                   std::to_string(time_limit_s(request, ranks)),
                                   "-np",
                                   std::to_string(ranks),
                                   peer.program,
                                   std::to_string(request.first_round),
                                   std::to_string(request.iterations),
                                   std::to_string(request.warmup),
                                   names_of(request.ops)};
  for (const std::int64_t bytes : request.bytes) command.push_back(std::to_string(bytes));
  return command;
}

}  // namespace lockstep::cli
