// Plans how a checkpoint looks under other names; renamed_source.h then reads it so.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/names/name_map.h"
#include "lockstep/checkpoint/names/prefixes.h"
#include "lockstep/checkpoint/names/renamed_source.h"

namespace lockstep::checkpoint {

/// `source` with the names and forms of the other convention. Optimizer state follows its
/// parameter; tensors that the family does not know keep their names, with a note. Reads the bytes
/// of tensors that may be tied, nothing else.
/// \param where the source, for messages. \throws BadData (LS-5015): no tensor is known, one of a
/// part is missing, shapes do not fit, two tensors get one name; as source.read().
[[nodiscard]] Renaming rename(const TensorSource& source, const NameMap& map, Convention from,
                              const std::string& where);

/// `source` under the names of the other convention, whichever it has now. \throws as rename().
[[nodiscard]] std::unique_ptr<RenamedSource> under_other_names(
    std::unique_ptr<const TensorSource> source, const NameMap& map, const std::string& where);

/// Every tensor's name, each followed by its aliases: what to strip prefixes from.
[[nodiscard]] std::vector<std::string> names_of(const TensorSource& source);

/// `source` with the names that strip_prefixes() or strip_given() made of names_of(source).
[[nodiscard]] Renaming rename_stripped(const TensorSource& source, const Stripped& stripped);

}  // namespace lockstep::checkpoint
