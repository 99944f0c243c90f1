#include "lockstep/starters/agent_order.h"

#include <algorithm>
#include <cstdint>

#include "lockstep/base/error.h"
#include "lockstep/config/convert.h"

namespace lockstep::starters {
namespace {

constexpr std::size_t kMostDigits = 8;

/// The next field of `bytes`; nothing when none ends there.
std::optional<std::string> take(std::string_view& bytes) {
  const std::size_t end = bytes.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  std::string field(bytes.substr(0, end));
  bytes.remove_prefix(end + 1);
  return field;
}

std::optional<AgentOrder> read_fields(std::string_view bytes) {
  AgentOrder order;
  const auto folder = take(bytes);
  const auto secret = take(bytes);
  const auto count = take(bytes);
  std::int64_t variables = 0;
  if (!folder || !secret || !count || !config::read_integer(*count, variables) || variables < 0) {
    return std::nullopt;
  }
  order.folder = *folder;
  order.secret = *secret;
  while (!bytes.empty()) {
    auto field = take(bytes);
    if (!field) return std::nullopt;
    (variables-- > 0 ? order.environment : order.command).push_back(std::move(*field));
  }
  if (variables > 0 || order.command.empty()) return std::nullopt;
  const bool named =
      std::all_of(order.environment.begin(), order.environment.end(), [](const std::string& text) {
        const std::size_t equals = text.find('=');
        return equals != std::string::npos && equals > 0;
      });
  return named ? std::optional(std::move(order)) : std::nullopt;
}

}  // namespace

std::string to_bytes(const AgentOrder& order) {
  std::string fields;
  const auto add = [&](const std::string& field) {
    LOCKSTEP_CHECK(field.find('\0') == std::string::npos, "a word with a NUL byte");
    fields += field;
    fields += '\0';
  };
  add(order.folder);
  add(order.secret);
  add(std::to_string(order.environment.size()));
  for (const std::string& variable : order.environment) add(variable);
  for (const std::string& word : order.command) add(word);
  LOCKSTEP_CHECK(fields.size() <= kLongestOrder, "a command line and environment of 8 MiB");
  return std::string(kOrderMagic) + std::to_string(fields.size()) + "\n" + fields;
}

ReadOrder read_order(std::string_view bytes) {
  const std::string_view magic = bytes.substr(0, kOrderMagic.size());
  if (magic != kOrderMagic.substr(0, magic.size())) return {OrderState::malformed, {}, 0};
  const std::size_t end = bytes.find('\n');
  if (end == std::string_view::npos) {
    const bool too_long = bytes.size() > kOrderMagic.size() + kMostDigits;
    return {too_long ? OrderState::malformed : OrderState::incomplete, {}, 0};
  }
  std::int64_t length = 0;
  if (end < kOrderMagic.size() ||
      !config::read_integer(bytes.substr(kOrderMagic.size(), end - kOrderMagic.size()), length) ||
      length < 0 || length > static_cast<std::int64_t>(kLongestOrder)) {
    return {OrderState::malformed, {}, 0};
  }
  const auto length_bytes = static_cast<std::size_t>(length);
  if (bytes.size() - end - 1 < length_bytes) return {OrderState::incomplete, {}, 0};
  auto order = read_fields(bytes.substr(end + 1, length_bytes));
  if (!order) return {OrderState::malformed, {}, 0};
  return {OrderState::complete, std::move(*order), end + 1 + length_bytes};
}

}  // namespace lockstep::starters
