#include "lockstep/checkpoint/weights/match_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/names/listed.h"
#include "lockstep/checkpoint/names/rename.h"
#include "lockstep/checkpoint/weights/find_naming.h"
#include "lockstep/checkpoint/weights/optimizer_state.h"
#include "lockstep/checkpoint/weights/weight_views.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kCompareBytes = 1U << 20;

/// Types that weights are kept in; integers stand for quantized ones, which need more than a cast.
constexpr auto kWeightTypes =
    std::to_array<std::string_view>({"F32", "BF16", "F16", "F64", "F8_E4M3", "F8_E5M2"});
/// Beside a tensor of 8 bits: the factors that its elements were divided by.
constexpr auto kScales =
    std::to_array<std::string_view>({"_scale_inv", "_scale", ".scale", ".scale_inv"});

bool is_weight_type(std::string_view dtype) {
  return std::find(kWeightTypes.begin(), kWeightTypes.end(), dtype) != kWeightTypes.end();
}

std::int64_t as_count(std::size_t count) { return static_cast<std::int64_t>(count); }

std::string list_of(std::string_view what, const std::vector<std::string>& items) {
  return std::string(what) + " (" + format_count(as_count(items.size())) + "): " + listed(items);
}

/// Whether two views hold the same bytes. Those made of several parts do not count as the same.
bool are_same(const TensorSource& source, const NamedView& a, const NamedView& b) {
  if (a.tensor.dtype != b.tensor.dtype || a.tensor.shape != b.tensor.shape) return false;
  const auto is_plain = [](const NamedView& view) {
    return view.parts.size() == 1 && view.parts[0].turned_columns == 0;
  };
  if (!is_plain(a) || !is_plain(b)) return false;
  const std::uint64_t bytes = a.parts[0].bytes;
  std::vector<std::byte> left(std::min<std::uint64_t>(bytes, kCompareBytes));
  std::vector<std::byte> right(left.size());
  for (std::uint64_t done = 0; done < bytes; done += left.size()) {
    const std::size_t count = std::min<std::uint64_t>(left.size(), bytes - done);
    source.read(a.parts[0].source, a.parts[0].begin + done, {left.data(), count});
    source.read(b.parts[0].source, b.parts[0].begin + done, {right.data(), count});
    if (std::memcmp(left.data(), right.data(), count) != 0) return false;
  }
  return true;
}

/// One match from the open file to the verdict.
class Matcher {
 public:
  Matcher(std::string_view family, const std::vector<WantedTensor>& wanted,
          const WeightsOptions& options, const std::string& where)
      : family_(family), wanted_(wanted), options_(options), where_(where) {
    for (const std::string& name : names_of(wanted)) known_.insert(name);
  }

  WeightsMatch run(std::unique_ptr<const TensorSource> source) {
    pass_over_optimizer(std::move(source));
    given_names_ = names_of(*match_.source);
    const Naming naming = find_naming(given_names_, wanted_, family_, options_.strip, where_);
    match_.notes.insert(match_.notes.end(), naming.notes.begin(), naming.notes.end());
    Renaming renaming = rename_stripped(*match_.source, {naming.names, {}, {}, {}});
    match_.source = std::make_unique<RenamedSource>(std::move(match_.source), std::move(renaming));
    found_ = weight_views(*match_.source, naming, wanted_);
    match_.notes.insert(match_.notes.end(), found_.notes.begin(), found_.notes.end());
    match();
    check_ties();
    refuse();
    add_notes();
    return std::move(match_);
  }

 private:
  void pass_over_optimizer(std::unique_ptr<const TensorSource> source) {
    Renaming kept;
    for (std::size_t i = 0; i < source->tensors().size(); ++i) {
      const StoredTensor& tensor = source->tensors()[i];
      if (is_optimizer_state(tensor) && !known_.contains(tensor.name)) {
        ++passed_over_;
      } else {
        kept.views.push_back({tensor, {{i, 0, tensor.bytes()}}});
      }
    }
    match_.source = std::move(source);
    if (passed_over_ == 0) return;
    match_.source = std::make_unique<RenamedSource>(std::move(match_.source), std::move(kept));
  }

  // What fits.

  void match() {
    std::vector<StoredTensor> tensors;
    for (const NamedView& view : found_.views) tensors.push_back(view.tensor);
    match_.report = match_names(tensors, wanted_);
    MatchReport& report = match_.report;
    report.hint.clear();
    report.other_dtype.clear();
    match_.views.resize(wanted_.size());
    std::erase_if(report.matched, [&](const MatchedTensor& pair) { return !take(pair); });
    std::erase_if(report.unexpected, [](const std::string& name) {
      return name.ends_with(".num_batches_tracked");  // ours do without
    });
    explain_missing();
  }

  /// \returns whether the tensor holds weights.
  bool take(const MatchedTensor& pair) {
    NamedView& view = found_.views[pair.stored];
    const std::string& name = wanted_[pair.wanted].name;
    const std::string& dtype = view.tensor.dtype;
    std::string fault;
    if (!is_weight_type(dtype)) {
      fault = name + " " + dtype + ", which is no type that weights are read from";
    } else if (dtype.starts_with("F8")) {
      const std::string scale = scale_of(view);
      if (!scale.empty()) fault = name + " " + dtype + " that " + scale + " would have to scale";
    }
    if (fault.empty()) {
      ++types_[dtype];
      match_.views[pair.wanted] = view;
    } else {
      match_.report.other_dtype.push_back(std::move(fault));
    }
    return match_.views[pair.wanted].has_value();
  }

  [[nodiscard]] std::string scale_of(const NamedView& view) {
    if (stored_names_.empty()) {
      for (std::string& name : names_of(*match_.source)) stored_names_.insert(std::move(name));
    }
    for (const Part& part : view.parts) {
      const std::string& name = match_.source->tensors()[part.source].name;
      const std::string stem = name.substr(0, std::min(name.rfind('.'), name.size()));
      for (const std::string_view end : kScales) {
        for (const std::string& before : {name, stem}) {
          std::string scale = before + std::string(end);
          if (stored_names_.contains(scale)) return scale;
        }
      }
    }
    return {};
  }

  void explain_missing() {
    std::vector<std::string> missing;
    for (const std::string& name : match_.report.missing) {
      if (const auto misfit = found_.misfits.find(name); misfit != found_.misfits.end()) {
        match_.report.other_shape.push_back(name + ": " + misfit->second);
        continue;
      }
      const auto why = found_.why_missing.find(name);
      std::string more = why == found_.why_missing.end() ? "" : why->second;
      for (const SkippedEntry& entry : match_.source->skipped()) {
        if (entry.name == name || entry.name.ends_with("." + name)) more = entry.why;
      }
      missing.push_back(more.empty() ? name : name + " (" + more + ")");
    }
    match_.report.missing = std::move(missing);
  }

  /// A tensor with several names in the model must not be two different ones in the file.
  void check_ties() {
    std::unordered_map<std::string_view, const NamedView*> by_name;
    for (const NamedView& view : found_.views) {
      by_name.try_emplace(view.tensor.name, &view);
      for (const std::string& alias : view.tensor.aliases) by_name.try_emplace(alias, &view);
    }
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      if (!match_.views[i]) continue;
      for (const std::string& alias : wanted_[i].aliases) {
        const auto other = by_name.find(alias);
        if (other == by_name.end()) continue;
        if (is_same_as(*match_.views[i], *other->second)) continue;
        doubts_.push_back(alias + " is not the tensor " + wanted_[i].name +
                          ", as which the model uses it");
      }
    }
  }

  [[nodiscard]] bool is_same_as(const NamedView& taken, const NamedView& other) const {
    const bool is_itself = !other.parts.empty() && !taken.parts.empty() &&
                           other.parts[0].source == taken.parts[0].source;
    return is_itself || are_same(*match_.source, taken, other);
  }

  // What is said about it.

  void refuse() {
    MatchReport& report = match_.report;
    doubts_.insert(doubts_.begin(), found_.twice.begin(), found_.twice.end());
    const bool is_nothing = report.matched.empty() && !wanted_.empty();
    const bool fits = report.missing.empty() && report.other_shape.empty() &&
                      report.other_dtype.empty() && doubts_.empty();
    if (!is_nothing && (fits || options_.partial)) return;
    const NamingHint hint = is_nothing ? hint_of_nothing() : NamingHint{};
    report.hint = hint.text;
    std::string what = "matched " + format_count(as_count(report.matched.size())) + " of " +
                       format_count(as_count(report.wanted));
    if (!report.hint.empty()) what += "; " + report.hint;
    for (const std::string& list : lists()) what += "; " + list;
    if (!doubts_.empty()) what += "; " + list_of("doubtful", doubts_);
    if (!report.unexpected.empty()) what += "; " + list_of("unexpected", report.unexpected);
    std::string fix = kFixOfPart;
    if (is_nothing) fix = kFixOfNothing;
    if (!hint.strip.empty()) fix = "set model.weights_strip = \"" + hint.strip + "\"";
    throw BadData({"LS-5014", where_, what, fix});
  }

  /// Of the wanted tensors that the file does not give.
  [[nodiscard]] std::vector<std::string> lists() const {
    const MatchReport& report = match_.report;
    std::vector<std::string> lists;
    const auto add = [&](std::string_view what, const std::vector<std::string>& items) {
      if (!items.empty()) lists.push_back(list_of(what, items));
    };
    add("missing", report.missing);
    add("of another shape", report.other_shape);
    add("of another type", report.other_dtype);
    return lists;
  }

  [[nodiscard]] NamingHint hint_of_nothing() const {
    if (!given_names_.empty()) return naming_hint(given_names_, wanted_, family_);
    return {passed_over_ > 0 ? "it holds optimizer state alone" : "it holds no tensor", ""};
  }

  static constexpr const char* kFixOfNothing =
      "name the weights of a model like this one; `lockstep ckpt inspect PATH` shows what is in a "
      "file";
  static constexpr const char* kFixOfPart =
      "make [model] as the file's is, or set model.weights_partial = true: what does not fit then "
      "stays as it is initialised";

  void add_notes() {
    const MatchReport& report = match_.report;
    std::vector<std::string>& notes = match_.notes;
    notes.insert(notes.begin(), "weights of " + where_ + ": " +
                                    format_count(as_count(report.matched.size())) + " of " +
                                    counted(as_count(report.wanted), "tensor"));
    for (const auto& [dtype, count] : types_) {
      if (dtype == "F32") continue;
      notes.push_back(dtype + " becomes F32: " + counted(as_count(count), "tensor"));
    }
    for (const std::string& list : lists()) notes.push_back("as initialised, " + list);
    if (!doubts_.empty()) notes.push_back(list_of("doubtful", doubts_));
    if (!report.unexpected.empty()) {
      notes.push_back(list_of("not of this model, left out", report.unexpected));
    }
    if (passed_over_ > 0) {
      notes.push_back("optimizer state left out: " + counted(as_count(passed_over_), "tensor"));
    }
  }

  std::string_view family_;
  const std::vector<WantedTensor>& wanted_;
  const WeightsOptions& options_;
  const std::string& where_;
  std::unordered_set<std::string> known_;         // names of the model
  std::vector<std::string> given_names_;          // of the file
  std::unordered_set<std::string> stored_names_;  // likewise, stripped; empty until needed
  std::size_t passed_over_ = 0;                   // tensors of optimizer state
  std::map<std::string, std::size_t> types_;      // of what is taken
  WeightViews found_;
  std::vector<std::string> doubts_;
  WeightsMatch match_;
};

}  // namespace

WeightsMatch match_weights(std::unique_ptr<const TensorSource> source, std::string_view family,
                           const std::vector<WantedTensor>& wanted, const WeightsOptions& options,
                           const std::string& where) {
  return Matcher(family, wanted, options, where).run(std::move(source));
}

}  // namespace lockstep::checkpoint
