// The terminal behind a file descriptor.
#pragma once
#include <cstddef>

namespace lockstep {

/// Its width now; 80 when it is none or does not say.
[[nodiscard]] std::size_t terminal_columns(int fd);

}  // namespace lockstep
