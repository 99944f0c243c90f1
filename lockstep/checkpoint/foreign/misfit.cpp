#include "lockstep/checkpoint/foreign/misfit.h"

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/damaged.h"

namespace lockstep::checkpoint {

void throw_misfit(const std::string& where, const std::string& what, const std::string& fix) {
  throw BadData({"LS-5020", where, shortened(what),
                 fix.empty()
                     ? "copy the whole folder again from where it was written, or use an older one"
                     : fix});
}

}  // namespace lockstep::checkpoint
