// Values as YAML writes them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::starters {

/// In double quotes, with what would end or change them escaped (YAML 1.2, 7.3.1).
[[nodiscard]] std::string yaml_word(std::string_view text);

/// ["lockstep", "train"]: a command line of a container, in which Kubernetes would otherwise
/// replace
/// $(NAME).
[[nodiscard]] std::string yaml_command(const std::vector<std::string>& words);

/// A name that a Kubernetes object and a DNS label take: at most 40 letters a-z, digits and '-',
/// the first a letter.
[[nodiscard]] std::string object_name(std::string_view name);

/// `text` as the lines of a block scalar, each with `indent` blanks before it.
[[nodiscard]] std::string indented(std::string_view text, std::size_t indent);

}  // namespace lockstep::starters
