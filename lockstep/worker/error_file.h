// What a failing rank leaves for whoever started it: torchelastic's error.json.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::worker {

/// The document that torchrun and `lockstep launch` read (torch 2.11,
/// distributed/elastic/multiprocessing/errors/error_handler.py): {"message":{"message":"LS-2003:
/// ...", "extraInfo":{"py_callstack":"...","timestamp":"<seconds since 1970>"}}}.
[[nodiscard]] std::string error_document(const std::vector<Problem>& problems,
                                         std::int64_t seconds_since_1970);

/// Writes it to `path`; empty = nowhere. A file that cannot be written changes nothing: the same
/// stands on standard error.
void write_error_file(const std::string& path, const std::vector<Problem>& problems);

}  // namespace lockstep::worker
