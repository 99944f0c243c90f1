#include "lockstep/checkpoint/foreign/deepspeed_folder.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/claimed_bytes.h"
#include "lockstep/checkpoint/foreign/deepspeed_files.h"
#include "lockstep/checkpoint/foreign/deepspeed_layout.h"
#include "lockstep/checkpoint/foreign/deepspeed_values.h"
#include "lockstep/checkpoint/foreign/misfit.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kMaxFactBytes = 256;
constexpr std::size_t kMaxSkipped = 1024;
constexpr std::size_t kMaxMoments = 16;  // kinds of state; each is a tensor more per parameter
constexpr std::int64_t kMaxStage = 3;

using Run = JoinedTensors::Run;

}  // namespace

/// Puts a source together; lives as long as its constructor.
class DeepSpeedBuilder {
 public:
  DeepSpeedBuilder(DeepSpeedSource& source, DeepSpeedFiles files)
      : source_(source), parts_(source.parts_), files_(std::move(files)) {}

  void build() {
    open_optimizer_files();
    open_model_files();
    add_trained();
    add_frozen();
    add_module();
    check_claims(parts_.tensors(), parts_.file_bytes(), files_.folder.string());
    set_facts();
  }

 private:
  /// The flat tensors of one kind ("exp_avg"): [rank][group], where there is one.
  using Wholes = std::vector<std::vector<std::optional<std::uint32_t>>>;

  void open_optimizer_files() {
    for (const auto& path : files_.optimizer) {
      const OpenTorchFile& file = parts_.open(path, deepspeed_globals());
      optimizer_.push_back(&file);
      states_.push_back(&need_dict(file, file.archive.root(), "optimizer_state_dict"));
      check_rank(file, *states_.back());
    }
  }

  /// The stage and the number of ranks that each file tells; nothing tells what rank it is of.
  void check_rank(const OpenTorchFile& file, const PickleValue& state) {
    const auto stage = integer_of(found(state, "zero_stage")).value_or(1);  // none: bf16 and ZeRO 1
    if (stage < 1 || stage > kMaxStage) {
      throw_misfit(path_of(file), "its zero_stage is " + std::to_string(stage));
    }
    if (optimizer_.size() > 1 && stage != stage_) {
      throw_misfit(path_of(file), "it is of ZeRO " + std::to_string(stage) +
                                      ", that of rank 0 of " + std::to_string(stage_));
    }
    stage_ = stage;
    const PickleValue* count = found(state, "partition_count");
    std::set<std::int64_t> counts;
    if (count != nullptr && count->is(PickleKind::list)) {
      for (const PickleValue* item : count->items()) counts.insert(integer_of(item).value_or(-1));
    } else {
      counts.insert(integer_of(count).value_or(-1));
    }
    if (counts.size() > 1) {
      throw_misfit(path_of(file), "its partition_count differs between groups: experts",
                   "merge it with DeepSpeed's ds_to_universal.py");
    }
    const auto files = static_cast<std::int64_t>(files_.optimizer.size());
    if (!counts.empty() && *counts.begin() != files) {
      throw_misfit(path_of(file), "its partition_count is " + std::to_string(*counts.begin()) +
                                      ", and there are " + std::to_string(files) +
                                      " files *_optim_states.pt");
    }
  }

  void open_model_files() {
    const OpenTorchFile& first = parts_.open(files_.model[0], deepspeed_globals());
    model_.push_back(&first);
    root_ = &first.archive.root();
    const PickleValue* frozen = found(*root_, "frozen_param_shapes");
    if (stage_ < kMaxStage || frozen == nullptr || frozen->entries() == 0) return;
    if (files_.model.size() != files_.optimizer.size()) {
      throw_misfit(files_.folder.string(),
                   "there are " + std::to_string(files_.model.size()) +
                       " files *_model_states.pt, which hold parts of frozen parameters, for " +
                       std::to_string(files_.optimizer.size()) + " ranks");
    }
    for (std::size_t rank = 1; rank < files_.model.size(); ++rank) {
      model_.push_back(&parts_.open(files_.model[rank], deepspeed_globals()));
    }
  }

  [[nodiscard]] std::string shapes_path() const { return path_of(*model_[0]); }

  /// A flat tensor of an optimizer file.
  std::uint32_t add_flat(const OpenTorchFile& file, const PickleValue& value,
                         const std::string& name) {
    const auto view = file.archive.tensor_of(value, name);
    const bool is_flat =
        view && view->shape.size() == 1 && (view->shape[0] <= 1 || view->stride[0] == 1);
    if (!is_flat) throw_misfit(path_of(file), name + " is no flat tensor");
    return parts_.add_whole(file, *view);
  }

  Wholes add_weights() {
    const std::string key =
        stage_ < kMaxStage ? "single_partition_of_fp32_groups" : "fp32_flat_groups";
    Wholes wholes;
    for (std::size_t rank = 0; rank < states_.size(); ++rank) {
      const OpenTorchFile& file = *optimizer_[rank];
      const auto items = need_list(file, *states_[rank], key);
      if (rank > 0 && items.size() != wholes[0].size()) {
        throw_misfit(path_of(file), "its " + key + " has " + std::to_string(items.size()) +
                                        " groups, that of rank 0 " +
                                        std::to_string(wholes[0].size()));
      }
      auto& groups = wholes.emplace_back();
      for (const PickleValue* item : items) {
        const std::string name = key + "[" + std::to_string(groups.size()) + "]";
        groups.emplace_back(add_flat(file, *item, name));
        check_dtype(*groups.back(), *wholes[0][0], name);
      }
    }
    return wholes;
  }

  void check_dtype(std::uint32_t whole, std::uint32_t first, const std::string& name) const {
    if (parts_.view(whole).dtype == parts_.view(first).dtype) return;
    throw_misfit(path_of(parts_.file(whole)), name + " is of " + parts_.view(whole).dtype +
                                                  ", in " + path_of(parts_.file(first)) + " of " +
                                                  parts_.view(first).dtype);
  }

  /// Where the optimizer of one rank has the state of each flat tensor, by its number.
  std::map<std::int64_t, const PickleValue*> state_of(std::size_t rank) const {
    const bool is_parts = stage_ == kMaxStage;
    const PickleValue* base =
        found(*states_[rank], is_parts ? "optimizer_state_dict" : "base_optimizer_state");
    if (base == nullptr) return {};
    if (!base->is(PickleKind::list)) {
      const PickleValue* all = found(*base, "state");
      return all == nullptr ? std::map<std::int64_t, const PickleValue*>() : by_number(*all);
    }
    std::map<std::int64_t, const PickleValue*> states;
    for (const PickleValue* state : base->items()) {
      states.emplace(static_cast<std::int64_t>(states.size()), state);
    }
    return states;
  }

  /// Flat tensors of the optimizer by kind, those as long as the weights that they belong to.
  std::map<std::string, Wholes> add_moments(const Wholes& weights) {
    std::map<std::string, Wholes> moments;
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      const auto states = state_of(rank);
      for (std::size_t group = 0; group < weights[rank].size(); ++group) {
        const auto state = states.find(static_cast<std::int64_t>(group));
        if (state != states.end() && is_dict(state->second)) {
          add_moments_of(*state->second, weights, rank, group, moments);
        }
      }
    }
    return moments;
  }

  void add_moments_of(const PickleValue& state, const Wholes& weights, std::size_t rank,
                      std::size_t group, std::map<std::string, Wholes>& moments) {
    NewNames names(*optimizer_[rank], "the state of group " + std::to_string(group));
    for (std::size_t i = 0; i < state.entries(); ++i) {
      const auto [key, value] = state.entry(i);
      if (!key->is(PickleKind::text)) continue;
      add_moment(moments, weights, rank, group, std::string(names.add(*key)), *value);
    }
  }

  void add_moment(std::map<std::string, Wholes>& moments, const Wholes& weights, std::size_t rank,
                  std::size_t group, const std::string& key, const PickleValue& value) {
    const OpenTorchFile& file = *optimizer_[rank];
    const std::string name = key + " of group " + std::to_string(group);
    const auto view = file.archive.tensor_of(value, name);
    const bool is_one = view && elements_of(view->shape) == 1 &&
                        (view->shape.empty() || parts_.elements(*weights[rank][group]) != 1);
    if (!view || is_one || key == "step") {
      if (rank == 0) note_scalar(file, "optimizer." + std::to_string(group) + "." + key, value);
      return;
    }
    const std::uint32_t whole = add_flat(file, value, name);
    if (parts_.elements(whole) < parts_.elements(*weights[rank][group])) {
      throw_misfit(path_of(file), name + " has " + count_text(parts_.elements(whole)) +
                                      " elements, the weights that it belongs to " +
                                      count_text(parts_.elements(*weights[rank][group])));
    }
    Wholes& of_kind = moments[key];
    if (moments.size() > kMaxMoments) {
      throw_misfit(path_of(file), "more than " + std::to_string(kMaxMoments) +
                                      " kinds of moments, the last is " + name);
    }
    if (of_kind.empty()) {
      for (const auto& groups : weights) of_kind.emplace_back(groups.size());
      first_of_kind_[key] = whole;
    }
    check_dtype(whole, first_of_kind_[key], name);
    of_kind[rank][group] = whole;
  }

  static std::string count_text(std::uint64_t count) {
    return format_count(static_cast<std::int64_t>(count));
  }

  /// A number of a whole group is a fact; anything else of it is left out.
  void note_scalar(const OpenTorchFile& file, const std::string& name, const PickleValue& value) {
    if (const auto number = integer_of(&value)) {
      add_fact(name, std::to_string(*number));
    } else if (value.is(PickleKind::real)) {
      add_fact(name, format_shortest(value.real()));
    } else if (const auto view = file.archive.tensor_of(value, name);
               view && view->dtype == "F32" && elements_of(view->shape) == 1) {
      std::array<std::byte, sizeof(float)> bytes{};
      file.archive.read(*view, 0, bytes);
      float number = 0;
      std::memcpy(&number, bytes.data(), bytes.size());
      add_fact(name, format_shortest(static_cast<double>(number)));
    } else {
      skip(name, "no tensor of as many elements as there are weights");
    }
  }

  void add_fact(const std::string& name, const std::string& text) {
    if (source_.facts_.size() < kMaxTorchFacts) source_.facts_[name] = text;
  }
  void skip(const std::string& name, const std::string& why) {
    if (source_.skipped_.size() < kMaxSkipped) source_.skipped_.push_back({name, why});
  }

  FlatLayout lay_out(const Wholes& weights, std::vector<FlatParameter>& all) const {
    FlatSizes sizes;
    for (const auto& groups : weights) {
      auto& of_rank = sizes.emplace_back();
      for (const auto& whole : groups) of_rank.push_back(parts_.elements(*whole));
    }
    std::vector<std::vector<FlatParameter>> by_group;
    NewNames names(*model_[0], "param_shapes");
    for (const PickleValue* group : need_list(*model_[0], *root_, "param_shapes")) {
      by_group.push_back(parameters_of(*group, names));
      all.insert(all.end(), by_group.back().begin(), by_group.back().end());
    }
    if (stage_ == kMaxStage) return lay_out_parts(all, sizes);
    if (by_group.size() != weights[0].size()) {
      throw_misfit(shapes_path(), "param_shapes has " + std::to_string(by_group.size()) +
                                      " groups, the optimizer " +
                                      std::to_string(weights[0].size()));
    }
    return lay_out_groups(by_group, sizes);
  }

  void add_trained() {
    const Wholes weights = add_weights();
    std::vector<FlatParameter> parameters;
    const FlatLayout layout = lay_out(weights, parameters);
    if (!layout.misfit.empty()) throw_misfit(files_.folder.string(), layout.misfit);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      add_joined(parameters[i], parameters[i].name, "parameter", layout.slices[i], weights);
    }
    for (const auto& [key, moments] : add_moments(weights)) {
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        if (parameters[i].elements == 0) continue;
        add_joined(parameters[i], parameters[i].name + "/" + key, "optimizer", layout.slices[i],
                   moments);
      }
    }
  }

  /// Leaves a tensor out when no rank has anything of its group.
  void add_joined(const FlatParameter& parameter, const std::string& name, const char* kind,
                  const FlatSlices& slices, const Wholes& wholes) {
    std::vector<Run> runs;
    std::string dtype = "F32";
    const FlatSlice* without = nullptr;
    for (const FlatSlice& slice : slices) {
      const auto& whole = wholes[slice.rank][slice.group];
      if (!whole) {
        without = &slice;
        continue;
      }
      dtype = parts_.view(*whole).dtype;
      runs.push_back({*whole, slice.begin, slice.count});
    }
    if (without != nullptr) {
      const bool nowhere = std::none_of(wholes.begin(), wholes.end(), [&](const auto& groups) {
        return groups[without->group].has_value();
      });
      if (runs.empty() && nowhere) return;
      throw_misfit(path_of(*optimizer_[without->rank]),
                   name + ": its part is missing in group " + std::to_string(without->group));
    }
    parts_.add({name, dtype, parameter.shape, kind}, std::move(runs), shapes_path());
  }

  /// Frozen parameters are stored with the model: whole up to ZeRO 2, in parts with ZeRO 3.
  void add_frozen() {
    const PickleValue* shapes = found(*root_, "frozen_param_shapes");
    if (shapes == nullptr) return;
    NewNames names(*model_[0], "frozen_param_shapes");
    const std::vector<FlatParameter> parameters = parameters_of(*shapes, names);
    if (parameters.empty()) return;
    const auto fragments = frozen_fragments();
    for (const FlatParameter& parameter : parameters) {
      std::vector<Run> runs;
      std::uint64_t left = parameter.elements;
      for (std::size_t rank = 0; rank < model_.size(); ++rank) {
        const std::uint32_t whole = add_fragment(*model_[rank], parameter, fragments[rank]);
        const std::uint64_t count = std::min(left, parts_.elements(whole));
        check_dtype(whole, runs.empty() ? whole : runs[0].whole, parameter.name);
        runs.push_back({whole, 0, count});
        left -= count;
      }
      const std::string dtype = parts_.view(runs[0].whole).dtype;
      parts_.add({parameter.name, dtype, parameter.shape, "parameter"}, std::move(runs),
                 shapes_path());
    }
  }

  using Values = std::map<std::string_view, const PickleValue*>;

  /// [rank]
  [[nodiscard]] std::vector<Values> frozen_fragments() const {
    const std::string key = "frozen_param_fragments";
    std::vector<Values> fragments;
    for (const OpenTorchFile* file : model_) {
      fragments.push_back(
          by_name(need_dict(*file, file->archive.root(), key), NewNames(*file, key)));
    }
    return fragments;
  }

  std::uint32_t add_fragment(const OpenTorchFile& file, const FlatParameter& parameter,
                             const Values& fragments) {
    const auto value = fragments.find(parameter.name);
    const auto view = value == fragments.end()
                          ? std::nullopt
                          : file.archive.tensor_of(*value->second, parameter.name);
    if (!view) throw_misfit(path_of(file), "frozen_param_fragments lacks " + parameter.name);
    if (stage_ < kMaxStage && view->shape != parameter.shape) {
      throw_misfit(path_of(file), "the fragment of \"" + parameter.name + "\" is " +
                                      to_text(view->shape) + ", its shape " +
                                      to_text(parameter.shape));
    }
    const std::uint64_t ranks = model_.size();
    const std::uint64_t part = parameter.elements / ranks + (parameter.elements % ranks != 0);
    if (stage_ == kMaxStage && elements_of(view->shape) != part) {
      throw_misfit(path_of(file), "the fragment of \"" + parameter.name + "\" has " +
                                      count_text(elements_of(view->shape)) + " elements, not " +
                                      count_text(part));
    }
    return parts_.add_whole(file, *view);
  }

  /// Buffers, and second names of parameters.
  void add_module() {
    const OpenTorchFile& file = *model_[0];
    const PickleValue& module = need_dict(file, *root_, "module");
    std::set<std::string, std::less<>> buffers;
    for (const PickleValue* name : need_list(file, *root_, "buffer_names")) {
      buffers.emplace(name->text());
    }
    const PickleValue* shared = found(*root_, "shared_params");
    Views views;
    std::vector<std::pair<std::string, TensorView>> others;
    NewNames names(file, "module");
    for (std::size_t i = 0; i < module.entries(); ++i) {
      const auto [key, value] = module.entry(i);
      const std::string name(names.add(*key));
      const auto view = file.archive.tensor_of(*value, name);
      if (view && buffers.count(name) > 0) {
        add_buffer(file, name, *view);
      } else if (view && parts_.has(name)) {
        views.emplace(std::tuple(view->storage, view->offset, view->shape), name);
      } else if (view) {
        others.emplace_back(name, *view);
      } else if (!value->is(PickleKind::none)) {
        skip(name, "no tensor");
      }
    }
    if (is_dict(shared)) add_shared(*shared);
    for (const auto& [name, view] : others) add_other(views, name, view);
  }

  /// A dict of second name -> first name.
  void add_shared(const PickleValue& shared) {
    for (std::size_t i = 0; i < shared.entries(); ++i) {
      const auto [alias, name] = shared.entry(i);
      if (alias->is(PickleKind::text) && name->is(PickleKind::text) &&
          !parts_.has(std::string(alias->text()))) {
        parts_.add_alias(std::string(alias->text()), std::string(name->text()), shapes_path());
      }
    }
  }

  using Views = std::map<std::tuple<std::string, std::uint64_t, Shape>, std::string>;

  void add_buffer(const OpenTorchFile& file, const std::string& name, const TensorView& view) {
    if (parts_.has(name)) return;
    const std::uint32_t whole = parts_.add_whole(file, view);
    parts_.add({name, view.dtype, view.shape, "buffer"}, {{whole, 0, elements_of(view.shape)}},
               shapes_path());
  }

  /// Before `shared_params` was saved, only the storage tells.
  void add_other(const Views& views, const std::string& name, const TensorView& view) {
    if (parts_.has(name)) return;
    const auto same = views.find({view.storage, view.offset, view.shape});
    const bool known = stage_ < kMaxStage && same != views.end();
    if (known && parts_.add_alias(name, same->second, shapes_path())) return;
    skip(name, "a tensor of the module that is neither trained, frozen nor a buffer");
  }

  void set_facts() {
    auto& facts = source_.facts_;
    facts["zero_stage"] = std::to_string(stage_);
    facts["world_size"] = std::to_string(optimizer_.size());
    const PickleValue* version = found(*root_, "ds_version");
    if (version != nullptr && version->is(PickleKind::text)) {
      facts["ds_version"] = version->text().substr(0, kMaxFactBytes);
    }
    if (const auto step = integer_of(found(*root_, "global_steps"))) {
      facts["step"] = std::to_string(*step);
    }
  }

  DeepSpeedSource& source_;
  JoinedTensors& parts_;
  DeepSpeedFiles files_;
  std::int64_t stage_ = 0;
  std::vector<const OpenTorchFile*> optimizer_;  // [rank]
  std::vector<const PickleValue*> states_;       // [rank], of them: optimizer_state_dict
  std::vector<const OpenTorchFile*> model_;
  const PickleValue* root_ = nullptr;  // of model_[0]
  std::map<std::string, std::uint32_t> first_of_kind_;
};

DeepSpeedSource::DeepSpeedSource(const std::filesystem::path& dir) {
  DeepSpeedBuilder(*this, find_deepspeed_files(dir)).build();
}

}  // namespace lockstep::checkpoint
