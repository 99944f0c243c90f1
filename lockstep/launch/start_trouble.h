// Why a program could not be started, in words of more use than errno's.
#pragma once
#include <optional>
#include <string>

#include "lockstep/base/error.h"

namespace lockstep::launch {

/// \param code errno of execve(), fork() or what came before them. Looks at the file: a script
/// whose interpreter is missing, one with Windows line ends or without a first line, a folder.
[[nodiscard]] EnvironmentFault start_trouble(const std::string& program, int code);

/// What is wrong with the first line of a script; nothing where it names an interpreter that is
/// there, and for any other file.
[[nodiscard]] std::optional<Problem> trouble_of_script(const std::string& program);

}  // namespace lockstep::launch
