// The one way a reader of this folder says that a checkpoint's bytes are wrong.
#pragma once
#include <string>

namespace lockstep::checkpoint {

/// \param where file; \param what names tensor and offset. \throws BadData (LS-5004), always.
[[noreturn]] void throw_damaged(const std::string& where, const std::string& what);

/// What a message quotes of a file: a name in it may have 100 MB. At most some 2000 bytes, cut
/// before a character of UTF-8.
[[nodiscard]] std::string shortened(std::string text);

}  // namespace lockstep::checkpoint
