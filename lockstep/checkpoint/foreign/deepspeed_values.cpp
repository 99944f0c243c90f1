#include "lockstep/checkpoint/foreign/deepspeed_values.h"

#include "lockstep/checkpoint/foreign/misfit.h"
#include "lockstep/checkpoint/foreign/torch_tensor.h"

namespace lockstep::checkpoint {

std::string path_of(const OpenTorchFile& file) { return file.file.path().string(); }

const PickleValue* found(const PickleValue& dict, std::string_view key) {
  const PickleValue* value = dict.find(key);
  return value == nullptr || value->is(PickleKind::none) ? nullptr : value;
}

bool is_dict(const PickleValue* value) {
  return value != nullptr &&
         (value->is(PickleKind::dict) || value->is_object_of("collections.OrderedDict"));
}

const PickleValue& need_dict(const OpenTorchFile& file, const PickleValue& dict,
                             const std::string& key) {
  const PickleValue* value = found(dict, key);
  if (!is_dict(value)) throw_misfit(path_of(file), "it has no dict " + key);
  return *value;
}

std::span<const PickleValue* const> need_list(const OpenTorchFile& file, const PickleValue& dict,
                                              const std::string& key) {
  const PickleValue* value = found(dict, key);
  if (value == nullptr || !(value->is(PickleKind::list) || value->is(PickleKind::tuple))) {
    throw_misfit(path_of(file), "it has no list " + key);
  }
  return value->items();
}

std::optional<std::int64_t> integer_of(const PickleValue* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is(PickleKind::integer)) return value->integer();
  const bool is_enum = value->is(PickleKind::object) && value->args()->items().size() == 1;
  return is_enum && value->args()->items()[0]->is(PickleKind::integer)
             ? std::optional(value->args()->items()[0]->integer())
             : std::nullopt;
}

std::map<std::int64_t, const PickleValue*> by_number(const PickleValue& dict) {
  std::map<std::int64_t, const PickleValue*> entries;
  for (std::size_t i = 0; i < dict.entries(); ++i) {
    const auto [key, value] = dict.entry(i);
    if (key->is(PickleKind::integer)) entries.emplace(key->integer(), value);
  }
  return entries;
}

std::string_view NewNames::add(const PickleValue& key) {
  if (!key.is(PickleKind::text)) throw_misfit(where_, what_ + " holds something without a name");
  const std::string_view name = key.text();
  if (name.size() > kMaxDeepSpeedName) {
    throw_misfit(where_,
                 what_ + ": a name of more than " + std::to_string(kMaxDeepSpeedName) + " bytes");
  }
  if (!seen_.insert(name).second) {
    throw_misfit(where_, what_ + ": two tensors are named " + std::string(name));
  }
  return name;
}

std::map<std::string_view, const PickleValue*> by_name(const PickleValue& dict, NewNames names) {
  std::map<std::string_view, const PickleValue*> entries;
  for (std::size_t i = 0; i < dict.entries(); ++i) {
    const auto [key, value] = dict.entry(i);
    entries.emplace(names.add(*key), value);
  }
  return entries;
}

std::vector<FlatParameter> parameters_of(const PickleValue& dict, NewNames& names) {
  std::vector<FlatParameter> parameters;
  if (!is_dict(&dict)) {
    throw_misfit(names.where(), names.what() + " holds something else than a dict");
  }
  for (std::size_t i = 0; i < dict.entries(); ++i) {
    const auto [key, value] = dict.entry(i);
    const std::string name(names.add(*key));
    const auto shape = integers_of(*value);
    if (!shape || !tensor_bytes("F64", *shape)) {
      throw_misfit(names.where(), names.what() + ": \"" + name + "\" has no shape");
    }
    parameters.push_back({name, *shape, elements_of(*shape)});
  }
  return parameters;
}

}  // namespace lockstep::checkpoint
