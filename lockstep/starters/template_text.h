// Text with places that are filled in.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace lockstep::starters {

using Filling = std::map<std::string, std::string, std::less<>>;

/// `text` with each @name@ replaced by its value; a line that holds nothing but a place whose value
/// is empty goes. Values are taken as they are. A name without a value is a bug.
[[nodiscard]] std::string filled(std::string_view text, const Filling& values);

}  // namespace lockstep::starters
