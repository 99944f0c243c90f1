// One way to split a training, or to save memory: what it forbids, which part of the activations it
// leaves a device, what it adds to memory. One file each and a row in layout_part.cpp.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/model/stats/architecture.h"
#include "lockstep/parallel/cost/activations.h"
#include "lockstep/parallel/cost/states.h"

namespace lockstep::parallel {

/// What a check may look at; what is not known is null or 0.
struct LayoutQuestion {
  const Layout& layout;
  const model::ModelStats* model = nullptr;
  const model::Architecture* architecture = nullptr;
  std::int64_t devices = 0;       // that there are
  std::int64_t global_batch = 0;  // that was asked for, samples
  bool data_follows = false;      // layout.data is as many as the other degrees leave of devices
  std::string_view devices_flag = "--gpus";  // that says how many there are
};

/// One pipeline rank, its states and activations counted.
struct StageSetting {
  const ActivationSetting& activations;
  int stage = 0;
  const DeviceParameters& parameters;
  [[nodiscard]] const Layout& layout() const { return activations.layout; }
  [[nodiscard]] const PrecisionRecipe& recipe() const { return activations.recipe; }
  [[nodiscard]] const MemoryStack& stack() const { return activations.stack; }
};

/// Bytes that are neither states nor activations.
struct AddedBytes {
  double buffers = 0;
  double communication = 0;
  double host = 0;
};

struct LayoutPart {
  std::string_view name;
  /// Appends every reason why the layout cannot be.
  void (*check)(const LayoutQuestion& question, std::vector<Problem>& problems) = nullptr;
  void (*share)(const Layout& layout, Shares& shares) = nullptr;
  void (*add)(const StageSetting& setting, AddedBytes& bytes) = nullptr;
  /// Appends what a plan takes for granted, a sentence each.
  void (*assume)(const ActivationSetting& setting, std::vector<std::string>& sentences) = nullptr;
};

[[nodiscard]] std::span<const LayoutPart> layout_parts();

// What sentences may name of a model.
[[nodiscard]] bool has_operator(const model::ModelStats& model, model::OperatorKind kind);
[[nodiscard]] bool has_layers(const model::ModelStats& model);
/// Parameters of embedding tables; 0 = the model has none.
[[nodiscard]] double table_parameters(const model::ModelStats& model);

// The rows, each in a file of its name.
[[nodiscard]] LayoutPart data_part();
[[nodiscard]] LayoutPart zero_part();
[[nodiscard]] LayoutPart tensor_part();
[[nodiscard]] LayoutPart pipeline_part();
[[nodiscard]] LayoutPart expert_part();
[[nodiscard]] LayoutPart context_part();
[[nodiscard]] LayoutPart tables_part();
[[nodiscard]] LayoutPart recompute_part();
[[nodiscard]] LayoutPart offload_part();

}  // namespace lockstep::parallel
