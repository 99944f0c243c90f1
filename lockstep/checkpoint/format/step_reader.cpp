#include "lockstep/checkpoint/format/step_reader.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/checkpoint/format/checksum.h"
#include "lockstep/checkpoint/format/damaged.h"
#include "lockstep/checkpoint/format/safetensors.h"

namespace lockstep::checkpoint {
namespace {

using TensorsByName = std::map<std::string, TensorInfo>;

/// The tensor lies in its file as the manifest says.
void compare(const ManifestTensor& tensor, const Piece& piece, const SafetensorsHeader& header,
             const TensorsByName& stored, const std::string& where) {
  const auto found = stored.find(tensor.name);
  if (found == stored.end()) throw_damaged(where, "tensor \"" + tensor.name + "\" is not in it");
  const TensorInfo& info = found->second;
  if (std::tie(info.dtype, info.shape) != std::tie(tensor.dtype, piece.shape) ||
      header.data_start + info.begin != piece.byte_offset) {
    throw_damaged(where, "tensor \"" + tensor.name + "\" is " + info.dtype + " " +
                             to_text(info.shape) + " at byte " +
                             std::to_string(header.data_start + info.begin) +
                             "; the manifest says " + tensor.dtype + " " + to_text(piece.shape) +
                             " at byte " + std::to_string(piece.byte_offset));
  }
}

}  // namespace

StepReader::StepReader(std::filesystem::path step_dir)
    : step_dir_(std::move(step_dir)), manifest_(read_manifest(step_dir_)) {
  std::map<std::string, SafetensorsHeader> headers;
  std::map<std::string, TensorsByName> stored;
  for (const auto& [name, bytes] : manifest_.file_bytes) {
    const InputFile& file = files_.try_emplace(name, step_dir_ / name).first->second;
    if (file.size_bytes() != bytes) {
      throw_damaged(file.path().string(), "has " + std::to_string(file.size_bytes()) +
                                              " bytes; the manifest says " + std::to_string(bytes));
    }
    headers[name] = read_safetensors_header(file);
    for (const TensorInfo& tensor : headers[name].tensors) stored[name][tensor.name] = tensor;
  }
  for (const ManifestTensor& tensor : manifest_.tensors) {
    std::set<std::string_view> files;
    for (const Piece& piece : tensor.pieces) {
      if (!files.insert(piece.file).second) {  // the same bytes: it stands there under one name
        throw_damaged((step_dir_ / kManifestName).string(),
                      "tensor \"" + tensor.name + "\": two pieces in " + piece.file);
      }
      compare(tensor, piece, headers[piece.file], stored[piece.file],
              (step_dir_ / piece.file).string());
    }
  }
}

void StepReader::read(const ManifestTensor& tensor, const Piece& piece,
                      std::span<std::byte> out) const {
  LOCKSTEP_CHECK(out.size() == piece.byte_count, "wrong buffer for tensor " + tensor.name);
  for (std::uint64_t block = 0; block < piece.checksums.size(); ++block) {
    const std::uint64_t begin = block * piece.block_bytes;
    read_block(tensor, piece, block,
               out.subspan(begin, std::min(piece.block_bytes, piece.byte_count - begin)));
  }
}

void StepReader::read_block(const ManifestTensor& tensor, const Piece& piece, std::uint64_t block,
                            std::span<std::byte> out) const {
  const std::uint64_t begin = piece.byte_offset + block * piece.block_bytes;
  files_.at(piece.file).read(begin, out);
  const std::uint64_t sum = checksum(out);
  if (sum != piece.checksums[block]) {
    throw BadData({"LS-5005", (step_dir_ / piece.file).string(),
                   "tensor \"" + tensor.name + "\" (bytes " + std::to_string(begin) + " to " +
                       std::to_string(begin + out.size()) + ") does not match its checksum: " +
                       to_hex(sum) + ", the manifest says " + to_hex(piece.checksums[block]),
                   "restore the file from a copy, or resume from an older checkpoint"});
  }
}

void PieceReader::read(std::uint64_t begin, std::span<std::byte> out) {
  LOCKSTEP_CHECK(begin <= piece_.byte_count && out.size() <= piece_.byte_count - begin,
                 "beyond the end of a piece of " + tensor_.name);
  while (!out.empty()) {
    const std::uint64_t block = begin / piece_.block_bytes;
    const std::uint64_t start = block * piece_.block_bytes;
    const auto length =
        static_cast<std::size_t>(std::min(piece_.block_bytes, piece_.byte_count - start));
    const auto skipped = static_cast<std::size_t>(begin - start);
    const std::size_t part = std::min(out.size(), length - skipped);
    if (part == length) {
      reader_.read_block(tensor_, piece_, block, out.first(part));
    } else {
      if (held_ != block) {
        held_ = UINT64_MAX;
        block_.resize(length);
        reader_.read_block(tensor_, piece_, block, block_);
        held_ = block;
      }
      std::copy_n(block_.begin() + static_cast<std::ptrdiff_t>(skipped), part, out.begin());
    }
    out = out.subspan(part);
    begin += part;
  }
}

std::vector<Problem> verify_tensor(const StepReader& reader, const ManifestTensor& tensor) {
  std::vector<Problem> problems;
  std::vector<std::byte> block;
  for (const Piece& piece : tensor.pieces) {
    PieceReader bytes(reader, tensor, piece);
    for (std::uint64_t begin = 0; begin < piece.byte_count; begin += piece.block_bytes) {
      block.resize(std::min(piece.block_bytes, piece.byte_count - begin));
      try {
        bytes.read(begin, block);
      } catch (const Error& error) {
        problems.insert(problems.end(), error.problems().begin(), error.problems().end());
      }
    }
  }
  return problems;
}

std::vector<Problem> verify_step(const std::filesystem::path& step_dir) {
  try {
    const StepReader reader(step_dir);
    std::vector<Problem> problems;
    for (const ManifestTensor& tensor : reader.manifest().tensors) {
      for (Problem& problem : verify_tensor(reader, tensor)) problems.push_back(std::move(problem));
    }
    return problems;
  } catch (const Error& error) {
    return error.problems();
  }
}

}  // namespace lockstep::checkpoint
