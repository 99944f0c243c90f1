#include "lockstep/launch/equal_environment.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "lockstep/base/sha256.h"
#include "lockstep/topology/nvml.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kLargestProgram = std::uintmax_t{64} << 20;
constexpr std::size_t kShownDigits = 16;

/// The script, or the program that runs itself. Modules are found by Python alone.
std::string program_hash(const AgentSettings& settings) {
  const LaunchOptions& options = settings.options;
  if (options.module || options.program.empty()) return "";
  const fs::path file =
      settings.program.is_ours ? settings.program.argv.front() : options.program.front();
  std::error_code unknown;
  if (!fs::is_regular_file(file, unknown)) return "";
  if (fs::file_size(file, unknown) > kLargestProgram || unknown) return "";
  std::ifstream in(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  return sha256_hex(bytes).substr(0, kShownDigits);
}

std::string device_names() {
  std::string names;
  for (const Device& device : probe_nvml()) names += (names.empty() ? "" : ", ") + device.name;
  return names;
}

}  // namespace

std::map<std::string, std::string> equal_environment(const AgentSettings& settings) {
  std::map<std::string, std::string> equal = settings.equal;
  const auto put = [&](const char* field, std::string value) {
    if (!value.empty()) equal.emplace(field, std::move(value));
  };
  put("program", program_hash(settings));
  put("devices", device_names());
  const std::string driver = read_small_file("/proc/driver/nvidia/version");
  put("driver", driver.substr(0, driver.find('\n')));
  return equal;
}

}  // namespace lockstep::launch
