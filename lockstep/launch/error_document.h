// What this launcher tells whoever started it with TORCHELASTIC_ERROR_FILE: another launcher, or a
// pod's termination log. torchrun does the same (elastic/multiprocessing/errors, dump_error_file).
#pragma once
#include <string>

#include "lockstep/launch/local_job.h"

namespace lockstep::launch {

/// The error file of the rank that failed first with its exit code in it (negative for a signal);
/// where that rank left none, one made of how it ended and its last lines.
[[nodiscard]] std::string error_document(const RankEnd& first);

/// Writes `text` over what is there, without taking the file away: it may be a mount of one file.
/// \returns 0 or errno.
[[nodiscard]] int overwrite_file(const std::string& path, const std::string& text);

}  // namespace lockstep::launch
