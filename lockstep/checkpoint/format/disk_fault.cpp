#include "lockstep/checkpoint/format/disk_fault.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>

#include "lockstep/base/units.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

struct KnownAnswer {
  int error;
  const char* reason;
  const char* fix;
};

constexpr auto kKnown = std::to_array<KnownAnswer>({
    {ENOSPC, "No space left on the disk", "free some space"},
    {EDQUOT, "the disk quota of this user or folder is used up",
     "remove files there, ask for a larger quota (`quota -s` shows it)"},
    {EROFS, "the file system is read-only",
     "mount it writable (the kernel makes it read-only after errors of the disk: see `dmesg`)"},
    {ESTALE, "stale handle: the file server no longer knows this file or folder",
     "mount the network file system again on this host"},
    {EIO, "the disk reports an error", "look for the disk in `dmesg`, and replace it"},
    {ETIMEDOUT, "the file server does not answer", "look after the server and the way to it"},
    {EACCES, "this user may not do that there", "change the permissions"},
    {EPERM, "this user may not do that there", "change the permissions"},
});

std::string bytes_text(std::uint64_t bytes) {
  return format_bytes(static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, INT64_MAX)));
}

/// The folder, or the first one above that exists.
fs::path existing(const fs::path& folder) {
  std::error_code error;
  fs::path above = fs::absolute(folder, error).lexically_normal();
  while (!error && !fs::exists(above, error) && above.has_relative_path()) {
    above = above.parent_path();
    error.clear();
  }
  return above;
}

std::optional<std::uint64_t> free_bytes(const fs::path& folder) {
  std::error_code unknown;
  const fs::space_info space = fs::space(existing(folder), unknown);
  return unknown ? std::nullopt : std::optional<std::uint64_t>(space.available);
}

/// "; the checkpoint needs 4.00 MB, free are 1.05 MB"
std::string need_and_free(const DiskUse& use) {
  const auto free = free_bytes(use.folder);
  const std::string need =
      use.need == 0 ? "" : "the checkpoint needs " + bytes_text(use.need) + ", ";
  return "; " + need + "free are " + (free ? bytes_text(*free) : "?");
}

/// Network file systems of many disks report what is free on all of them.
std::string why_full(const DiskUse& use) {
  const auto free = free_bytes(use.folder);
  if (!free || *free < use.need) return "";
  return ": one of the disks behind this file system is full, or it can hold no further files";
}

/// "cannot flush: Input/output error": without the library's opening, and paths behind it.
std::string text_of(const fs::filesystem_error& error) {
  constexpr std::string_view kOpening = "filesystem error: ";
  std::string_view text = error.what();
  if (text.starts_with(kOpening)) text.remove_prefix(kOpening.size());
  return std::string(text.substr(0, text.find(" [")));
}

const fs::path& place_of(const fs::filesystem_error& error, const DiskUse& use) {
  return error.path1().empty() ? use.folder : error.path1();
}

}  // namespace

DiskAnswer disk_answer(int error) {
  const auto* const known = std::find_if(kKnown.begin(), kKnown.end(),
                                         [&](const auto& one) { return one.error == error; });
  if (known != kKnown.end()) return {known->reason, known->fix};
  return {"the system refused: " + std::generic_category().message(error),
          "look after the folder and its disk"};
}

EnvironmentFault disk_fault(const fs::filesystem_error& error, const DiskUse& use) {
  const int code = error.code().value();
  const DiskAnswer answer = disk_answer(code);
  const bool is_full = code == ENOSPC || code == EDQUOT;
  const std::string what = answer.reason + need_and_free(use) +
                           (code == ENOSPC ? why_full(use) : "") + " (" + text_of(error) + ")";
  return EnvironmentFault({is_full ? "LS-5001" : "LS-5002", place_of(error, use).string(), what,
                           answer.fix + ", or " + use.otherwise});
}

void require_room(const DiskUse& use) {
  const auto free = free_bytes(use.folder);  // unknown: the writing itself will tell
  if (!free || *free >= use.need) return;
  const DiskAnswer answer = disk_answer(ENOSPC);
  throw EnvironmentFault({"LS-5001", existing(use.folder).string(),
                          answer.reason + need_and_free(use),
                          answer.fix + ", or " + use.otherwise});
}

}  // namespace lockstep::checkpoint
