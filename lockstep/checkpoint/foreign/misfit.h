// The one way the readers of whole folders say that its files do not fit each other.
#pragma once
#include <string>

namespace lockstep::checkpoint {

/// \param where file or folder; \param what names the tensor; \param fix empty: the usual one.
/// \throws BadData (LS-5020), always.
[[noreturn]] void throw_misfit(const std::string& where, const std::string& what,
                               const std::string& fix = "");

}  // namespace lockstep::checkpoint
