// CIFAR-10 and CIFAR-100 in their binary form (docs/formats/cifar.md).
#pragma once
#include <cstdint>
#include <string>

#include "lockstep/data/formats/byte_source.h"
#include "lockstep/data/formats/labelled_images.h"

namespace lockstep::data {

enum class CifarKind { cifar10, cifar100 };

inline constexpr std::int64_t kCifarChannels = 3;
inline constexpr std::int64_t kCifarSide = 32;
inline constexpr std::int64_t kCifarPixels = kCifarChannels * kCifarSide * kCifarSide;

/// Classes of a kind: 10, or the 100 fine ones.
[[nodiscard]] std::int64_t cifar_classes(CifarKind kind);

/// Appends every record of `source` to `images`.
/// \throws BadData (LS-2002, LS-2004) with file and offset.
void parse_cifar(ByteSource& source, CifarKind kind, LabelledImages& images);

/// Writes records; CIFAR-100's coarse label, which lockstep does not read, is written as fine / 5.
void write_cifar(const std::string& path, CifarKind kind, const LabelledImages& images);

enum class CifarPart { train, test };

/// How many images read_cifar() would read, from the sizes of the files; 0 for a missing one, and
/// for all where one is compressed: what it inflates to is not known without reading it.
[[nodiscard]] std::int64_t count_cifar_images(const std::string& location, CifarPart part);

/// What sizes tell of the files that read_cifar() would read.
/// \throws EnvironmentFault when one is missing, BadData when one is empty or ends within a record.
void check_cifar_files(const std::string& location, CifarPart part);

/// Reads a folder with the standard names (data_batch_1..5.bin and test_batch.bin, or train.bin and
/// test.bin), or one or more files separated by commas.
/// \throws EnvironmentFault when a file is missing, BadData when it is corrupt.
[[nodiscard]] LabelledImages read_cifar(const std::string& location, CifarPart part);

}  // namespace lockstep::data
