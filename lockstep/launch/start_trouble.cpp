#include "lockstep/launch/start_trouble.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string_view>
#include <system_error>

#include "lockstep/base/limits.h"

namespace lockstep::launch {
namespace {

constexpr std::size_t kLongestShebang = 256;  // of Linux (binfmt_script)

/// What stands behind "#!" in the first line, up to a blank; empty where there is none.
std::string interpreter_of(const std::string& program) {
  std::ifstream in(program, std::ios::binary);
  std::string line(kLongestShebang, '\0');
  in.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(in.gcount()));
  if (!line.starts_with("#!")) return "";
  line = line.substr(0, line.find('\n'));
  const std::size_t start = line.find_first_not_of(" \t", 2);
  if (start == std::string::npos) return "";
  return line.substr(start, line.find_first_of(" \t", start) - start);
}

EnvironmentFault fault(const std::string& program, const std::string& why, const std::string& fix) {
  return EnvironmentFault({"LS-3004", program, "cannot be started: " + why, fix});
}

EnvironmentFault without_interpreter(const std::string& program) {
  std::string interpreter = interpreter_of(program);
  if (interpreter.ends_with('\r')) {
    interpreter.pop_back();
    return fault(program,
                 "its first line asks for " + interpreter +
                     " with a carriage return behind it: the script has Windows line ends",
                 "take them away: sed -i 's/\\r$//' " + program);
  }
  if (interpreter.empty()) {
    return fault(program, "a library or the loader that it is linked with does not exist",
                 "`ldd " + program + "` names it; or it was built for another system");
  }
  return fault(program, "its first line asks for " + interpreter + ", which does not exist",
               "install that, or correct the line (#!/usr/bin/env NAME finds a program of PATH)");
}

}  // namespace

std::optional<Problem> trouble_of_script(const std::string& program) {
  const std::string interpreter = interpreter_of(program);
  if (interpreter.empty() || ::access(interpreter.c_str(), X_OK) == 0) return std::nullopt;
  return without_interpreter(program).problems().front();
}

EnvironmentFault start_trouble(const std::string& program, int code) {
  if (code == EMFILE || code == ENFILE || code == EAGAIN || code == ENOMEM) {
    return limit_fault(program + " cannot be started", code);
  }
  struct stat info {};
  const bool is_there = ::stat(program.c_str(), &info) == 0;
  if (is_there && S_ISDIR(info.st_mode)) {
    return fault(program, "it is a folder", "name a program, or a Python file in the folder");
  }
  if (is_there && code == ENOENT) return without_interpreter(program);
  if (is_there && code == ENOEXEC) {
    return fault(program, "it is neither a program of this machine nor a script",
                 "a script begins with a line that names its interpreter: #!/bin/sh");
  }
  if (is_there && code == EACCES && ::access(program.c_str(), X_OK) != 0) {
    return fault(program, "it may not be executed", "chmod +x " + program);
  }
  if (code == E2BIG) {
    return fault(program, "its arguments and environment variables are too long for this system",
                 "hand them over in a file; all together may take a quarter of `ulimit -s`, one "
                 "alone 128 KiB");
  }
  if (code == ENAMETOOLONG) {
    return fault(program, "the name is too long for this system", "is it an argument instead?");
  }
  return fault(
      program, std::generic_category().message(code),
      "check that the file exists and may be executed, and the limits on processes and open "
      "files (ulimit -u, ulimit -n)");
}

}  // namespace lockstep::launch
