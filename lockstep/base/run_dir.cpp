#include "lockstep/base/run_dir.h"

#include <array>
#include <ctime>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string utc_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&now, &utc);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y%m%d-%H%M%S", &utc);
  return {text.data(), length};
}

[[noreturn]] void fail(const fs::path& path, const std::error_code& error) {
  throw EnvironmentFault({"LS-3051", path.string(),
                          "the run directory cannot be made: " + error.message(),
                          "choose a writable place with --run-dir"});
}

}  // namespace

fs::path make_run_dir(const std::string& wanted, const std::string& name) {
  std::error_code error;
  if (!wanted.empty()) {
    fs::create_directories(wanted, error);
    if (error) fail(wanted, error);
    return wanted;
  }
  fs::create_directories("runs", error);
  if (error) fail("runs", error);
  const std::string base = "runs/" + name + "-" + utc_stamp();
  constexpr int kTries = 100;
  for (int i = 1; i <= kTries; ++i) {
    const fs::path path = i == 1 ? base : base + "-" + std::to_string(i);
    if (fs::create_directory(path, error)) return path;
    if (error) fail(path, error);
  }
  fail(base, std::make_error_code(std::errc::file_exists));
}

}  // namespace lockstep
