#include "lockstep/checkpoint/weights/weights_path.h"

#include <system_error>

#include "lockstep/base/error.h"

namespace lockstep::checkpoint {

std::filesystem::path weights_path(const std::string& named, const TagRegistry& tags) {
  std::error_code error;
  if (std::filesystem::exists(named, error) || !is_tag_name(named)) return named;
  try {
    return tags.find(named).path;
  } catch (const UsageError&) {  // no such tag
    return named;
  }
}

}  // namespace lockstep::checkpoint
