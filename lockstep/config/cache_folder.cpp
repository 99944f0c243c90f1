#include "lockstep/config/cache_folder.h"

#include <cstdlib>

namespace lockstep::config {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

}  // namespace

std::string cache_folder() {
  if (const std::string own = environment("LOCKSTEP_CACHE"); !own.empty()) return own;
  if (const std::string all = environment("XDG_CACHE_HOME"); !all.empty()) return all + "/lockstep";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/lockstep";
}

std::string tags_folder() {
  if (const std::string own = environment("LOCKSTEP_TAGS"); !own.empty()) return own;
  if (const std::string all = environment("XDG_DATA_HOME"); !all.empty()) {
    return all + "/lockstep/tags";
  }
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.local/share/lockstep/tags";
}

}  // namespace lockstep::config
