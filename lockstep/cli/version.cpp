#include <nlohmann/json.hpp>

#include "lockstep/cli/program.h"

// Given by the build; a build without LibTorch or outside git has none.
#ifndef LOCKSTEP_VERSION
#define LOCKSTEP_VERSION "0.0.0"
#endif
#ifndef LOCKSTEP_LIBTORCH_VERSION
#define LOCKSTEP_LIBTORCH_VERSION "none"
#endif
#ifndef LOCKSTEP_GIT
#define LOCKSTEP_GIT "unknown"
#endif

namespace lockstep::cli {

std::string version_text(bool json) {
  if (!json) {
    return "lockstep " LOCKSTEP_VERSION " (git " LOCKSTEP_GIT
           ", LibTorch " LOCKSTEP_LIBTORCH_VERSION ", backends shm, gloo and fake)";
  }
  const nlohmann::ordered_json document{{"version", LOCKSTEP_VERSION},
                                        {"libtorch", LOCKSTEP_LIBTORCH_VERSION},
                                        {"backends", {"shm", "gloo", "fake"}},
                                        {"git", LOCKSTEP_GIT}};
  return document.dump();
}

}  // namespace lockstep::cli
