// Makes the type, getter and setter of a registry row from the two member pointers that name its
// field.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "lockstep/config/registry.h"

namespace lockstep::config {

template <typename T>
struct FieldOf {
  using Type = T;
  static constexpr bool kOptional = false;
};
template <typename T>
struct FieldOf<std::optional<T>> {
  using Type = T;
  static constexpr bool kOptional = true;
};

template <typename T>
constexpr OptionType option_type() {
  if constexpr (std::is_same_v<T, bool>) return OptionType::boolean;
  if constexpr (std::is_same_v<T, std::string>) return OptionType::text;
  if constexpr (std::is_same_v<T, std::array<double, 2>>) return OptionType::number_pair;
  if constexpr (std::is_enum_v<T>) return OptionType::word;
  if constexpr (std::is_floating_point_v<T>) return OptionType::number;
  return OptionType::integer;
}

template <typename T>
Value to_value(const T& field) {
  if constexpr (std::is_enum_v<T> || (std::is_integral_v<T> && !std::is_same_v<T, bool>)) {
    return static_cast<std::int64_t>(field);
  } else {
    return field;
  }
}

template <typename T>
T from_value(const Value& value) {
  if constexpr (std::is_enum_v<T> || (std::is_integral_v<T> && !std::is_same_v<T, bool>)) {
    return static_cast<T>(std::get<std::int64_t>(value));
  } else {
    return std::get<T>(value);
  }
}

/// Field `F` of the section `S` of RunConfig.
template <auto S, auto F>
struct Access {
  using Field = std::remove_cvref_t<decltype(std::declval<RunConfig>().*S.*F)>;
  using Type = typename FieldOf<Field>::Type;
  static constexpr bool kOptional = FieldOf<Field>::kOptional;
  static constexpr OptionType kType = option_type<Type>();
  static constexpr bool kKeepsWord = false;

  static Value get(const RunConfig& config) {
    const Field& field = config.*S.*F;
    if constexpr (kOptional) {
      return field ? to_value(*field) : Value{};
    } else {
      return to_value(field);
    }
  }

  static void set(RunConfig& config, const Value& value) {
    Field& field = config.*S.*F;
    if constexpr (kOptional) {
      field.reset();
      if (!std::holds_alternative<std::monostate>(value)) field = from_value<Type>(value);
    } else {
      field = from_value<Type>(value);
    }
  }
};

/// batch.micro_batch, where "auto" is not the same as unset.
struct MicroBatchAccess {
  using Number = Access<&RunConfig::batch, &BatchSection::micro_batch>;
  static constexpr bool kOptional = true;
  static constexpr OptionType kType = OptionType::integer;
  static constexpr bool kKeepsWord = true;

  static Value get(const RunConfig& config) {
    return config.batch.finds_micro_batch ? Value(std::string("auto")) : Number::get(config);
  }

  static void set(RunConfig& config, const Value& value) {
    config.batch.finds_micro_batch = std::holds_alternative<std::string>(value);
    Number::set(config, config.batch.finds_micro_batch ? Value{} : value);
  }
};

}  // namespace lockstep::config
