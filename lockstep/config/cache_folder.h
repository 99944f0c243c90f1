// Where what outlives its runs is kept: what was measured of a machine, names of checkpoints.
#pragma once
#include <string>

namespace lockstep::config {

/// $LOCKSTEP_CACHE, else $XDG_CACHE_HOME/lockstep, else $HOME/.cache/lockstep; empty without any.
[[nodiscard]] std::string cache_folder();

/// Of the tags of checkpoints: $LOCKSTEP_TAGS, else $XDG_DATA_HOME/lockstep/tags, else
/// $HOME/.local/share/lockstep/tags; empty without any.
[[nodiscard]] std::string tags_folder();

}  // namespace lockstep::config
