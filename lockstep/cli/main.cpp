#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "lockstep/base/process.h"
#include "lockstep/cli/program.h"

int main(int argc, char** argv) {
  lockstep::prepare_process();
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
  const lockstep::Exit exit = lockstep::cli::run_program(words, context);
  return static_cast<int>(lockstep::settle_output(exit));
}
