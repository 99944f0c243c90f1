// Limits of this process and machine (files, memory, threads) as errors that say what to raise.
#pragma once
#include <exception>
#include <optional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep {

/// \param what could not be done, "no pipe can be made". \param code errno: EMFILE names the limit
/// on open files, EAGAIN that on processes, any other that on memory, each with its present value.
[[nodiscard]] EnvironmentFault limit_fault(const std::string& what, int code);

/// The same of an exception of the standard library, where it says that memory, threads or
/// descriptors ran out; nothing of any other.
[[nodiscard]] std::optional<EnvironmentFault> limit_fault_of(const std::exception& error);

}  // namespace lockstep
