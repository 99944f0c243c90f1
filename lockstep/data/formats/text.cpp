#include "lockstep/data/formats/text.h"

#include <sstream>

#include "lockstep/base/error.h"
#include "lockstep/data/formats/byte_source.h"
#include "lockstep/data/formats/command_output.h"

namespace lockstep::data {

std::vector<std::uint8_t> read_text(const std::string& location) {
  if (!location.starts_with('!')) return read_all(*open_file(location));
  std::vector<std::string> argv;
  std::istringstream words(location.substr(1));
  for (std::string word; words >> word;) argv.push_back(word);
  if (argv.empty()) {
    throw UsageError({{"LS-2006", "data.train", "\"!\" is not followed by a program",
                       "name one, as in \"!bible -f gen1:1-rev22:21\", or a file"}});
  }
  return command_output(argv);
}

}  // namespace lockstep::data
