#include "lockstep/checkpoint/format/step_source.h"

#include <algorithm>
#include <utility>

#include "lockstep/checkpoint/format/box_runs.h"
#include "lockstep/checkpoint/format/damaged.h"

namespace lockstep::checkpoint {
namespace {

/// The runs of a piece in bytes. Elements below one byte have one piece, which is one run.
struct ByteRuns {
  ByteRuns(const ManifestTensor& tensor, const Piece& piece)
      : runs(tensor.shape, {piece.offset, piece.shape}) {
    const auto bits = static_cast<std::uint64_t>(element_bits(tensor.dtype));
    bytes = runs.elements() * bits / 8;
    width = bits / 8;
  }
  [[nodiscard]] std::uint64_t start(std::uint64_t run) const { return runs.start(run) * width; }
  [[nodiscard]] std::uint64_t first_behind(std::uint64_t byte) const {
    return width == 0 ? 0 : runs.first_behind(byte / width);
  }

  BoxRuns runs;
  std::uint64_t bytes = 0;  // of a run
  std::uint64_t width = 0;  // of an element; 0 = below one byte
};

/// What [begin, begin + out.size()) of the tensor has of `piece`.
void read_part(const StepReader& reader, const ManifestTensor& tensor, const Piece& piece,
               std::uint64_t begin, std::span<std::byte> out) {
  const ByteRuns runs(tensor, piece);
  const std::uint64_t end = begin + out.size();
  PieceReader bytes(reader, tensor, piece);
  for (auto run = runs.first_behind(begin); run < runs.runs.count(); ++run) {
    const std::uint64_t start = runs.start(run);
    if (start >= end) break;
    const std::uint64_t from = std::max(start, begin);
    const std::uint64_t to = std::min(start + runs.bytes, end);
    bytes.read(run * runs.bytes + (from - start), out.subspan(from - begin, to - from));
  }
}

void check_elements(const ManifestTensor& tensor, const std::filesystem::path& step_dir) {
  if (element_bits(tensor.dtype) % 8 == 0 || tensor.pieces.size() <= 1) return;
  throw_damaged((step_dir / kManifestName).string(),
                "tensor \"" + tensor.name + "\": " + tensor.dtype + " in several pieces");
}

}  // namespace

StepSource::StepSource(const std::filesystem::path& step_dir) : reader_(step_dir) {
  for (const ManifestTensor& tensor : manifest().tensors) {
    check_elements(tensor, step_dir);
    tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, tensor.kind, tensor.aliases});
  }
}

void StepSource::read(std::size_t index, std::uint64_t begin, std::span<std::byte> out) const {
  LOCKSTEP_CHECK(index < tensors_.size(), "no such tensor");
  const std::uint64_t bytes = tensors_[index].bytes();
  LOCKSTEP_CHECK(begin <= bytes && out.size() <= bytes - begin,
                 "beyond the end of tensor " + tensors_[index].name);
  const ManifestTensor& tensor = manifest().tensors[index];
  if (out.empty()) return;
  for (const Piece& piece : tensor.pieces) read_part(reader_, tensor, piece, begin, out);
}

std::map<std::string, std::string> StepSource::facts() const {
  const Manifest& m = manifest();
  std::map<std::string, std::string> facts{{"step", std::to_string(m.step)},
                                           {"epoch", std::to_string(m.epoch)},
                                           {"sample", std::to_string(m.sample)},
                                           {"skipped_steps", std::to_string(m.skipped_steps)},
                                           {"seed", std::to_string(m.seed)},
                                           {"config_hash", m.config_hash},
                                           {"world_size", std::to_string(m.world_size)},
                                           {"layout", m.layout}};
  for (const auto& [program, version] : m.versions) facts["version." + program] = version;
  return facts;
}

std::vector<Problem> StepSource::verify(std::size_t index) const {
  LOCKSTEP_CHECK(index < tensors_.size(), "no such tensor");
  return verify_tensor(reader_, manifest().tensors[index]);
}

std::vector<Problem> StepSource::verify() const {
  std::vector<Problem> problems;
  for (std::size_t index = 0; index < tensors_.size(); ++index) {
    for (Problem& problem : verify(index)) problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace lockstep::checkpoint
