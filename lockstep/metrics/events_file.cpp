#include "lockstep/metrics/events_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/error.h"

namespace lockstep::metrics {
namespace {

namespace fs = std::filesystem;

EnvironmentFault fault(const fs::path& file, const std::string& what) {
  return EnvironmentFault(
      {"LS-3051", file.string(), what,
       "check that the folder exists, may be written and that the disk has room"});
}

/// The step a line belongs to; a line that is no report belongs to the step before it.
std::int64_t step_of(const std::string& line, std::int64_t before) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return before;
  const auto eval = json.find("eval");
  const auto& report = eval != json.end() && eval->is_object() ? *eval : json;
  const auto step = report.find("step");
  return step != report.end() && step->is_number_integer() ? step->get<std::int64_t>() : before;
}

/// Bytes of whole lines up to the first one after `last_step`.
std::streamoff bytes_to_keep(const fs::path& file, std::int64_t last_step) {
  std::ifstream lines(file, std::ios::binary);
  std::streamoff keep = 0;
  std::int64_t step = 0;
  std::string line;
  while (last_step > 0 && std::getline(lines, line) && !lines.eof()) {
    step = step_of(line, step);
    if (step > last_step) break;
    keep += static_cast<std::streamoff>(line.size()) + 1;
  }
  return keep;
}

/// Opening a pipe that nobody reads would wait for ever.
void require_plain_file(const fs::path& file) {
  std::error_code unknown;
  const fs::file_status status = fs::status(file, unknown);
  if (!fs::exists(status) || fs::is_regular_file(status) || fs::is_character_file(status)) return;
  throw fault(file, "is not a regular file");
}

}  // namespace

EventsFile::EventsFile(fs::path file, std::int64_t resumed_step) : file_(std::move(file)) {
  require_plain_file(file_);
  const std::streamoff keep = bytes_to_keep(file_, resumed_step);
  fd_ = Fd(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  if (!fd_) throw fault(file_, std::string("cannot be opened: ") + std::strerror(errno));
  struct stat now {};
  const bool is_longer = ::fstat(fd_.get(), &now) == 0 && now.st_size > keep;
  if (is_longer && ::ftruncate(fd_.get(), keep) != 0) {
    throw fault(file_, std::string("cannot be cut: ") + std::strerror(errno));
  }
}

void EventsFile::append(const std::string& line) {
  const std::string whole = line + "\n";
  ssize_t written = 0;
  do {
    written = ::write(fd_.get(), whole.data(), whole.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(whole.size())) return;
  throw fault(file_, written < 0 ? std::string("cannot be written: ") + std::strerror(errno)
                                 : std::string("cannot be written: no space for a whole line"));
}

void write_whole_file(const fs::path& file, const std::string& text) {
  try {
    AtomicFile whole(file);
    whole.write(std::as_bytes(std::span(text.data(), text.size())));
    whole.commit();
  } catch (const fs::filesystem_error& error) {
    throw fault(file, "cannot be written: " + error.code().message());
  }
}

void write_summary(const fs::path& run_dir, const engine::RunSummary& summary) {
  write_whole_file(run_dir / "summary.json", engine::to_json_text(summary) + "\n");
}

}  // namespace lockstep::metrics
