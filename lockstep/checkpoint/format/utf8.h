// Whether bytes that somebody else wrote are text.
#pragma once
#include <string_view>

namespace lockstep::checkpoint {

/// Well-formed UTF-8 (Unicode 15, table 3-7): no overlong forms, surrogates or cut characters.
[[nodiscard]] bool is_utf8(std::string_view text);

}  // namespace lockstep::checkpoint
