// Reads a pickle (protocols 0 to 5) without executing anything: opcodes only build PickleValues.
// What a file may name is decided by two lists; everything else refuses the file.
#pragma once
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "lockstep/checkpoint/foreign/pickle_value.h"

namespace lockstep::checkpoint {

inline constexpr std::uint64_t kMaxPickleBytes = std::uint64_t{1} << 28U;

/// "module.name" of classes and functions. Names of Python 2 are given by those of Python 3:
/// "__builtin__.set" is "builtins.set".
struct PickleGlobals {
  using Names = std::set<std::string, std::less<>>;
  Names allowed;  // an object of them keeps what it was made of
  Names skipped;  // an object of them becomes PickleKind::skipped

  /// Both lists together.
  friend PickleGlobals operator+(PickleGlobals a, const PickleGlobals& b);
};

/// The whole of `pickle`, one pickle and nothing after it. Memory is at most some 80 times its
/// bytes. \param where file and record, for messages.
/// \throws BadData: LS-5013 for a global that neither list has, or an opcode that can only be there
/// to run something; LS-5012 for bytes that are no pickle: cut, underflow, an unknown opcode,
/// nesting deeper than kMaxPickleDepth, a value that holds itself, more than kMaxPickleBytes. Both
/// name the byte.
[[nodiscard]] PickleTree read_pickle(std::string pickle, const PickleGlobals& globals,
                                     const std::string& where);

}  // namespace lockstep::checkpoint
