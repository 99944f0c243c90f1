// Where what was measured of a machine outlives its runs.
#pragma once
#include <string>

namespace lockstep::config {

/// $LOCKSTEP_CACHE, else $XDG_CACHE_HOME/lockstep, else $HOME/.cache/lockstep; empty without any.
[[nodiscard]] std::string cache_folder();

}  // namespace lockstep::config
