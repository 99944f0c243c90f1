// The one way the readers of this folder say that a file is none of PyTorch's, or a damaged one.
#pragma once
#include <string>

namespace lockstep::checkpoint {

/// \param where file; \param what names entry, tensor and offset. \throws BadData (LS-5012),
/// always.
[[noreturn]] void throw_not_torch(const std::string& where, const std::string& what);

}  // namespace lockstep::checkpoint
