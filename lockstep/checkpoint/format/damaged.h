// The one way a reader of this folder says that a checkpoint's bytes are wrong.
#pragma once
#include <string>

namespace lockstep::checkpoint {

/// \param where file; \param what names tensor and offset. \throws BadData (LS-5004), always.
[[noreturn]] void throw_damaged(const std::string& where, const std::string& what);

}  // namespace lockstep::checkpoint
