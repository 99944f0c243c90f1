// What the table of rules and the comparison of two configurations share.
#pragma once
#include <string_view>

#include "lockstep/rundir/resume_changes.h"

namespace lockstep::rundir {

inline constexpr auto kFree = ChangeClass::free;
inline constexpr auto kNoted = ChangeClass::noted;
inline constexpr auto kRefused = ChangeClass::refused;
inline constexpr auto kImpossible = ChangeClass::impossible;

inline constexpr std::string_view kNumbersStay = "the numbers do not depend on it";
inline constexpr std::string_view kOtherTensors = "the tensors are others";

}  // namespace lockstep::rundir
