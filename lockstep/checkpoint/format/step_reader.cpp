#include "lockstep/checkpoint/format/step_reader.h"

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
    for (const Piece& piece : tensor.pieces) {
      compare(tensor, piece, headers[piece.file], stored[piece.file],
              (step_dir_ / piece.file).string());
    }
  }
}

void StepReader::read(const ManifestTensor& tensor, const Piece& piece,
                      std::span<std::byte> out) const {
  LOCKSTEP_CHECK(out.size() == piece.byte_count, "wrong buffer for tensor " + tensor.name);
  files_.at(piece.file).read(piece.byte_offset, out);
  const std::uint64_t sum = checksum(out);
  if (sum != piece.checksum) {
    throw BadData({"LS-5005", (step_dir_ / piece.file).string(),
                   "tensor \"" + tensor.name + "\" (bytes " + std::to_string(piece.byte_offset) +
                       " to " + std::to_string(piece.byte_offset + piece.byte_count) +
                       ") does not match its checksum: " + to_hex(sum) + ", the manifest says " +
                       to_hex(piece.checksum),
                   "restore the file from a copy, or resume from an older checkpoint"});
  }
}

std::vector<Problem> verify_step(const std::filesystem::path& step_dir) {
  std::vector<Problem> problems;
  const auto note = [&problems](const auto& action) {
    try {
      action();
    } catch (const Error& error) {
      problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    }
  };
  note([&] {
    const StepReader reader(step_dir);
    std::vector<std::byte> bytes;
    for (const ManifestTensor& tensor : reader.manifest().tensors) {
      for (const Piece& piece : tensor.pieces) {
        bytes.resize(piece.byte_count);
        note([&] { reader.read(tensor, piece, bytes); });
      }
    }
  });
  return problems;
}

}  // namespace lockstep::checkpoint
