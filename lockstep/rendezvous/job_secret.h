// The secret that all agents of a job know and nobody else: who knows it may lead or join.
#pragma once
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/base/hmac.h"

namespace lockstep::rendezvous {

using Secret = std::array<std::uint8_t, 32>;

/// Where the secret is. It never comes from argv, which every user of a host can read.
struct SecretSource {
  std::string named;                   // a file, or "fd:N" for a descriptor; empty = the default
  std::filesystem::path default_file;  // made when it is missing
};

/// A secret is 32 bytes, or 64 hex digits and a line end. A file must be private (why_not_private).
/// A descriptor is read to its end and closed.
/// \throws UsageError (named) or EnvironmentFault (default file): LS-3061, saying what to do.
[[nodiscard]] Secret load_secret(const SecretSource& source);

/// What keeps a file of `owner` with `mode` from holding a secret of user `self`; nothing where it
/// may. A file of one's own must be closed to all others (0600 or 0400). One of root, as Kubernetes
/// mounts a Secret, may be read by its group as well (0440 with fsGroup): who is in that group is
/// root's choice.
struct NotPrivate {
  std::string what;  // "others may read or write the file"
  std::string fix;
};
[[nodiscard]] std::optional<NotPrivate> why_not_private(const std::string& path, uid_t owner,
                                                        mode_t mode, uid_t self);

/// What the agents of one job prove to each other, and frames carry codes of.
struct JobKey {
  Code key{};                          // HMAC-SHA256(secret, run id)
  std::array<std::uint8_t, 16> job{};  // of the run id alone, sent in clear: tells jobs apart
};

[[nodiscard]] JobKey job_key(const Secret& secret, const std::string& run_id);

/// From the kernel's generator. \throws EnvironmentFault when it fails.
[[nodiscard]] Secret random_secret();

}  // namespace lockstep::rendezvous
