// Reading a flight file (docs/formats/flight.md) that somebody may be writing, or that is not one.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "lockstep/comm/records/flight_values.h"

namespace lockstep::comm {

/// `first` and `second` are the file read twice, one after the other: a record that changed between
/// is left out. Texts come without control characters. \throws BadData (LS-4021) naming `where` and
/// the field, when anything is not as a recorder writes it.
[[nodiscard]] RankFlight parse_flight(std::span<const std::byte> first,
                                      std::span<const std::byte> second, const std::string& where);

/// Reads a file of a live or dead process; reads again when records changed meanwhile. \throws
/// BadData as above, EnvironmentFault (LS-4024) when the file cannot be read.
[[nodiscard]] RankFlight read_flight(const std::filesystem::path& file);

}  // namespace lockstep::comm
