#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "lockstep/cli/program.h"

int main(int argc, char** argv) {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  std::error_code ignored;
  const lockstep::cli::Context context{
      .out = std::cout,
      .err = std::cerr,
      .out_is_terminal = terminal,
      .color = terminal,
      .program_path = std::filesystem::read_symlink("/proc/self/exe", ignored).string(),
      .get_env = [](const char* name) { return static_cast<const char*>(std::getenv(name)); }};
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return static_cast<int>(lockstep::cli::run_program(words, context));
}
