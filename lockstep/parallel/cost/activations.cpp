#include "lockstep/parallel/cost/activations.h"

#include <algorithm>

#include "lockstep/parallel/cost/stage_blocks.h"
#include "lockstep/parallel/cost/states.h"
#include "lockstep/parallel/plan/in_flight.h"

namespace lockstep::parallel {
namespace {

constexpr double kFp32Bytes = 4;

/// Bytes that a device keeps and works with of one block and one micro-batch.
class BlockBytes {
 public:
  explicit BlockBytes(const ActivationSetting& setting)
      : s_(setting),
        shares_(shares_of(setting.layout)),
        samples_(static_cast<double>(setting.layout.micro_batch)) {}

  /// With what attention keeps when `scores` are kept.
  [[nodiscard]] double kept(const model::BlockStats& block, bool scores) const {
    double sum = 0;
    for (const model::OperatorStats& op : block.operators) {
      for (const model::Kept& kept : op.kept) {
        if (kept.of_scores && !scores) continue;
        sum += bytes(op, kept) * shares_.of(kept.share);
      }
      if (op.kind == model::OperatorKind::attention) sum += attention_bytes(op, scores);
    }
    return sum * samples_;
  }

  /// What full recomputation leaves of a layer.
  [[nodiscard]] double input(const model::BlockStats& block) const {
    return block.input_elements * s_.recipe.compute * shares_.of(model::Share::sequence) * samples_;
  }

  /// Gradients of what the block's largest operator reads and writes.
  [[nodiscard]] double working(const model::BlockStats& block) const {
    if (s_.stack.activations_alone) return 0;
    double most = 0;
    for (const model::OperatorStats& op : block.operators) most = std::max(most, largest(op));
    return most * samples_;
  }

 private:
  [[nodiscard]] double bytes(const model::OperatorStats& op, const model::Kept& kept) const {
    const bool is_mask = op.kind == model::OperatorKind::dropout || kept.of_scores;
    return kept.elements * s_.recipe.compute + kept.bytes * (is_mask ? s_.stack.mask_bytes : 1);
  }

  [[nodiscard]] static double scores_of(const model::OperatorStats& op) {
    return op.m * op.n * op.times;
  }

  /// Flash attention keeps the logarithm of each row's sum (Dao et al. 2022, arXiv:2205.14135).
  [[nodiscard]] double attention_bytes(const model::OperatorStats& op, bool scores) const {
    const double share = shares_.of(op.share);
    if (scores) return s_.stack.extra_scores * scores_of(op) * s_.recipe.compute * share;
    return s_.layout.flash_attention ? kFp32Bytes * op.m * op.times * share : 0;
  }

  /// Of a logit beside the fp32 one that is kept. Copied: the logit itself, and gradients of
  /// logarithm and of softmax.
  [[nodiscard]] double loss_bytes() const {
    return s_.stack.loss == LossMemory::copied ? s_.recipe.compute + 2 * kFp32Bytes : 0;
  }

  [[nodiscard]] double largest(const model::OperatorStats& op) const {
    const double share = shares_.of(op.share);
    if (op.kind == model::OperatorKind::loss) return loss_bytes() * op.m * op.n * share;
    double elements = op.moved_elements;
    if (op.kind == model::OperatorKind::attention && !s_.layout.flash_attention) {
      elements += s_.stack.score_gradients * scores_of(op);
    }
    return elements * s_.recipe.compute * share;
  }

  const ActivationSetting& s_;
  Shares shares_;
  double samples_;
};

bool keeps_scores(const Layout& layout) {
  return !layout.flash_attention && layout.recompute != Recompute::selective;
}

double kept_of(const BlockBytes& bytes, const Layout& layout, const model::BlockStats& block) {
  if (block.is_layer && layout.recompute == Recompute::full) return bytes.input(block);
  return bytes.kept(block, keeps_scores(layout));
}

/// What backward of a block needs beside what all blocks keep.
double working_of(const BlockBytes& bytes, const Layout& layout, const model::BlockStats& block) {
  double sum = bytes.working(block);
  const bool again = block.is_layer && layout.recompute == Recompute::full;
  if (again) sum += bytes.kept(block, !layout.flash_attention);
  if (layout.recompute == Recompute::selective && !layout.flash_attention) {
    sum += bytes.kept(block, true) - bytes.kept(block, false);
  }
  return sum;
}

/// Sums and peak of one micro-batch over one piece.
struct PieceBytes {
  double layers = 0;
  double ends = 0;
  double peak = 0;    // while backward goes through it
  double output = 0;  // what it hands on
};

PieceBytes piece_bytes(const ActivationSetting& s, const BlockBytes& bytes, const Piece& piece) {
  PieceBytes sum;
  for (std::size_t i = piece.first; i < piece.end; ++i) {
    const model::BlockStats& block = s.model.blocks[i];
    (block.is_layer ? sum.layers : sum.ends) += kept_of(bytes, s.layout, block);
    sum.peak = std::max(sum.peak, sum.layers + sum.ends + working_of(bytes, s.layout, block));
  }
  if (s.stack.activations_alone) sum.peak = sum.layers + sum.ends;
  if (piece.end < s.model.blocks.size()) sum.output = bytes.input(s.model.blocks[piece.end]);
  return sum;
}

/// With one stage the head's gradient of a tied matrix waits through backward for that of the
/// embedding, unless both go into one buffer.
double waiting_gradient(const ActivationSetting& s) {
  if (s.layout.pipeline > 1 || s.stack.activations_alone) return 0;
  if (s.stack.exchange == GradientExchange::in_place) return 0;
  const model::ParameterStats* tied = tied_parameter(s.model);
  return tied == nullptr ? 0 : elements_on_device(*tied, s.layout) * s.recipe.compute;
}

}  // namespace

double kept_bytes(const ActivationSetting& setting, const model::BlockStats& block) {
  return kept_of(BlockBytes(setting), setting.layout, block);
}

ActivationBytes activation_bytes(const ActivationSetting& s, int stage) {
  const BlockBytes bytes(s);
  const std::vector<Piece> pieces = pieces_of(s.model, s.layout);
  const std::vector<std::int64_t> held = in_flight(s.layout, stage);
  const auto stages = static_cast<std::size_t>(std::max(1, s.layout.pipeline));
  ActivationBytes sum;
  std::size_t chunk = 0;
  for (auto i = static_cast<std::size_t>(stage); i < pieces.size(); i += stages, ++chunk) {
    const PieceBytes piece = piece_bytes(s, bytes, pieces[i]);
    const auto count = static_cast<double>(held[std::min(chunk, held.size() - 1)]);
    sum.layers += count * piece.layers;
    sum.ends += count * piece.ends;
    if (s.stack.keeps_outputs) sum.outputs += count * piece.output;
    sum.working = std::max(sum.working, piece.peak - piece.layers - piece.ends);
  }
  sum.working += waiting_gradient(s);
  return sum;
}

}  // namespace lockstep::parallel
