#include "lockstep/checkpoint/foreign/not_torch.h"

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/format/damaged.h"

namespace lockstep::checkpoint {

void throw_not_torch(const std::string& where, const std::string& what) {
  throw BadData({"LS-5012", where, shortened(what),
                 "copy the file again from where it was made, or save it again with torch.save"});
}

}  // namespace lockstep::checkpoint
