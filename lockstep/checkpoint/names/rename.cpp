#include "lockstep/checkpoint/names/rename.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/names/listed.h"
#include "lockstep/checkpoint/names/slice.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kCompareBytes = 1U << 20;

/// A tensor of the source.
struct Entry {
  std::size_t index = 0;
  KnownName known;                   // rule null: the family does not know it
  std::string suffix;                // "/moment1"
  std::vector<std::string> aliases;  // as the other convention calls them
  bool is_alias = false;             // of another entry
};

std::string numbers_of(const Bindings& bindings) {
  std::string text;
  for (const Bound& bound : bindings) text += " " + std::to_string(bound.number);
  return text;
}

bool equal_bytes(const TensorSource& source, std::size_t a, std::size_t b) {
  const StoredTensor& tensor = source.tensors()[a];
  const StoredTensor& other = source.tensors()[b];
  if (tensor.dtype != other.dtype || tensor.shape != other.shape) return false;
  std::vector<std::byte> left(std::min<std::uint64_t>(tensor.bytes(), kCompareBytes));
  std::vector<std::byte> right(left.size());
  for (std::uint64_t begin = 0; begin < tensor.bytes(); begin += left.size()) {
    const std::size_t count = std::min<std::uint64_t>(left.size(), tensor.bytes() - begin);
    source.read(a, begin, {left.data(), count});
    source.read(b, begin, {right.data(), count});
    if (std::memcmp(left.data(), right.data(), count) != 0) return false;
  }
  return true;
}

class Renamer {
 public:
  Renamer(const TensorSource& source, const NameMap& map, Convention from, const std::string& where)
      : source_(source), map_(map), from_(from), where_(where) {}

  Renaming run() {
    for (std::size_t i = 0; i < source_.tensors().size(); ++i) take(i);
    if (known_ == 0) refuse_family();
    find_ties();
    find_width();
    for (const Entry& entry : entries_) {
      if (entry.is_alias) continue;
      need_part(entry);
      add_views(entry);
    }
    check_names();
    refuse_faults();
    add_notes();
    return std::move(renaming_);
  }

 private:
  [[nodiscard]] bool is_ours() const { return from_ == Convention::ours; }
  [[nodiscard]] const StoredTensor& tensor_of(const Entry& entry) const {
    return source_.tensors()[entry.index];
  }
  [[nodiscard]] std::string_view second_of(const Tie& tie) const {
    return is_ours() ? tie.ours_second : tie.theirs_second;
  }
  [[nodiscard]] const Tie* tie_to(std::string_view name) const {
    const auto tie = std::find_if(map_.ties.begin(), map_.ties.end(),
                                  [&](const Tie& t) { return second_of(t) == name; });
    return tie == map_.ties.end() ? nullptr : &*tie;
  }

  /// The name in the source's own convention, without older spellings.
  [[nodiscard]] std::string plain_name(const KnownName& known) const {
    const NameRule& rule = *known.rule;
    return fill_pattern(is_ours() ? rule.ours : theirs_of(rule)[known.place], known.bindings);
  }

  /// Where the source has that tensor; null when it does not.
  [[nodiscard]] const Entry* find(std::string_view pattern, const Entry& like) const {
    const auto found = by_name_.find(fill_pattern(pattern, like.known.bindings) + like.suffix);
    return found == by_name_.end() ? nullptr : &entries_[found->second];
  }

  // Which tensors there are.

  void take(std::size_t index) {
    const StoredTensor& tensor = source_.tensors()[index];
    std::vector<std::string> names{tensor.name};
    names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
    const auto main = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
      return tie_to(name) == nullptr && find_name(map_, from_, split_state_name(name).parameter);
    });
    if (main != names.end()) std::rotate(names.begin(), main, main + 1);
    const StateName state = split_state_name(names.front());
    Entry entry{index, {}, std::string(state.suffix), {}};
    const auto known = find_name(map_, from_, state.parameter);
    if (!known && leave_out(tensor.name, state.parameter)) return;
    if (known) entry.known = *known;
    for (const std::string& alias : std::span(names).subspan(1)) {
      entry.aliases.push_back(known ? other_name(alias) : alias);
    }
    if (known) register_name(entry);
    entries_.push_back(std::move(entry));
  }

  bool leave_out(const std::string& name, std::string_view parameter) {
    const std::string_view why = is_ours() ? "" : why_unneeded(map_, parameter);
    if (why.empty()) return false;
    renaming_.left_out.push_back({name, std::string(why)});
    return true;
  }

  void register_name(const Entry& entry) {
    ++known_;
    const std::string name = plain_name(entry.known) + entry.suffix;
    const auto [at, is_new] = by_name_.try_emplace(name, entries_.size());
    if (is_new) return;
    faults_.push_back(tensor_of(entries_[at->second]).name + " and " + tensor_of(entry).name +
                      " are both " + name);
  }

  /// What the other convention calls an alias; one that it cannot have keeps its name.
  [[nodiscard]] std::string other_name(const std::string& alias) const {
    const StateName state = split_state_name(alias);
    if (const Tie* tie = tie_to(state.parameter)) {
      const std::string_view other = is_ours() ? tie->theirs_second : tie->ours_second;
      return std::string(other) + std::string(state.suffix);
    }
    const auto known = find_name(map_, from_, state.parameter);
    if (!known || theirs_of(*known->rule).size() > 1) return alias;
    const std::string_view other = is_ours() ? known->rule->theirs[0] : known->rule->ours;
    return fill_pattern(other, known->bindings) + std::string(state.suffix);
  }

  // What belongs together.

  void find_ties() {
    std::set<std::string> suffixes;
    for (const Entry& entry : entries_) suffixes.insert(entry.suffix);
    for (const std::string& suffix : suffixes) {
      for (const Tie& tie : map_.ties) join(tie, suffix);
    }
  }

  void join(const Tie& tie, const std::string& suffix) {
    const auto first = by_name_.find(std::string(is_ours() ? tie.ours : tie.theirs) + suffix);
    const auto second = by_name_.find(std::string(second_of(tie)) + suffix);
    if (first == by_name_.end() || second == by_name_.end()) return;
    Entry& kept = entries_[first->second];
    Entry& other = entries_[second->second];
    if (!equal_bytes(source_, kept.index, other.index)) return;
    other.is_alias = true;
    kept.aliases.push_back(std::string(is_ours() ? tie.theirs_second : tie.ours_second) + suffix);
    by_name_.erase(second);
  }

  /// Only their names can hide a matrix that lies the other way round.
  void find_width() {
    if (is_ours() || map_.stream.empty()) return;
    const auto ours = find_name(map_, Convention::ours, map_.stream);
    LOCKSTEP_CHECK(ours.has_value(), "a table whose stream is none of its tensors");
    const Entry* entry = find(ours->rule->theirs[0], Entry{});
    if (entry == nullptr || tensor_of(*entry).shape.size() != 2) return;
    width_ = tensor_of(*entry).shape[1];
  }

  void need_part(const Entry& entry) {
    if (entry.known.rule == nullptr || !entry.suffix.empty()) return;
    const std::string_view part = entry.known.rule->part;
    if (part.empty()) return;
    if (!parts_.insert(std::string(part) + numbers_of(entry.known.bindings)).second) return;
    for (const NameRule& rule : map_.rules) {
      if (rule.part != part || !rule.needed) continue;
      if (is_ours()) {
        need(rule.ours, entry);
      } else {
        for (const std::string_view theirs : theirs_of(rule)) need(theirs, entry);
      }
    }
  }

  const Entry* need(std::string_view pattern, const Entry& like) {
    const Entry* found = find(pattern, like);
    if (found == nullptr) {
      const std::string name = fill_pattern(pattern, like.known.bindings) + like.suffix;
      if (missing_.insert(name).second) faults_.push_back(name + " is missing");
    }
    return found;
  }

  // What is made of them.

  void add_views(const Entry& entry) {
    if (entry.known.rule == nullptr) {
      const StoredTensor& tensor = tensor_of(entry);
      kept_.push_back(tensor.name);
      NamedView view{tensor, {{entry.index, 0, tensor.bytes()}}};
      renaming_.views.push_back(std::move(view));
    } else if (is_ours()) {
      add_their_views(entry);
    } else {
      add_our_view(entry);
    }
  }

  void add_view(const Entry& entry, const std::string& name, std::span<const Slice> slices) {
    Stack made = stack(slices);
    if (!made.fault.empty()) {
      faults_.push_back(name + ": " + made.fault);
      return;
    }
    made.view.tensor.name = name;
    made.view.tensor.kind = tensor_of(entry).kind;
    if (slices.size() == 1) made.view.tensor.aliases = entry.aliases;
    renaming_.views.push_back(std::move(made.view));
  }

  bool is_good(const Entry& entry, const Slice& slice) {
    if (!slice.fault.empty()) faults_.push_back(tensor_of(entry).name + ": " + slice.fault);
    return slice.fault.empty();
  }

  void add_our_view(const Entry& entry) {
    const NameRule& rule = *entry.known.rule;
    const std::string name = fill_pattern(rule.ours, entry.known.bindings) + entry.suffix;
    const auto theirs = theirs_of(rule);
    if (theirs.size() > 1 && !merged_.insert(name).second) return;
    std::vector<Slice> slices;
    for (const std::string_view one : theirs) {
      const Entry* part = need(one, entry);
      if (part == nullptr) continue;
      Slice slice = slice_all(source_, part->index, rule.layout);
      if (is_good(*part, slice) && fits_width(*part, slice)) slices.push_back(std::move(slice));
    }
    if (slices.size() == theirs.size()) add_view(entry, name, slices);
  }

  bool fits_width(const Entry& entry, const Slice& slice) {
    if (!width_ || !entry.known.rule->reads_stream || !entry.suffix.empty()) return true;
    if (slice.shape.size() == 2 && slice.shape[1] == *width_) return true;
    faults_.push_back(tensor_of(entry).name + " is " + to_text(tensor_of(entry).shape) +
                      ", which does not read the " + std::to_string(*width_) +
                      " numbers that the model is wide");
    return false;
  }

  void add_their_views(const Entry& entry) {
    const NameRule& rule = *entry.known.rule;
    const std::vector<std::int64_t> rows = rows_of_parts(entry);
    std::int64_t first = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::string name =
          fill_pattern(theirs_of(rule)[i], entry.known.bindings) + entry.suffix;
      const Slice slice = rows.size() == 1
                              ? slice_all(source_, entry.index, rule.layout)
                              : slice_rows(source_, entry.index, first, rows[i], rule.layout);
      first += rows[i];
      if (is_good(entry, slice)) add_view(entry, name, {&slice, 1});
    }
    if (!entry.suffix.empty()) return;
    for (const Counter& counter : map_.counters) {
      if (counter.ours == rule.ours)
        add_counter(fill_pattern(counter.theirs, entry.known.bindings));
    }
  }

  void add_counter(const std::string& name) {
    NamedView view;
    view.tensor.name = name;
    view.tensor.dtype = "I64";
    view.tensor.kind = "buffer";
    renaming_.views.push_back(std::move(view));
  }

  /// Rows of ours that each of theirs has; empty, with a fault, where that cannot be said.
  std::vector<std::int64_t> rows_of_parts(const Entry& entry) {
    const NameRule& rule = *entry.known.rule;
    const auto others = static_cast<std::int64_t>(theirs_of(rule).size()) - 1;
    const Shape& shape = tensor_of(entry).shape;
    if (others == 0) return {0};
    const Entry* measure = need(rule.first_rows, entry);
    if (measure == nullptr) return {};
    const Shape& measured = tensor_of(*measure).shape;
    const std::int64_t first = measured.size() == 2 ? measured[1] : -1;
    const std::int64_t rest = shape.empty() ? -1 : shape[0] - first;
    if (first < 0 || rest < 0 || rest % others != 0) {
      faults_.push_back(tensor_of(entry).name + " is " + to_text(shape) +
                        ", which cannot be cut in " + std::to_string(others + 1) + " as " +
                        tensor_of(*measure).name + " " + to_text(measured) + " says");
      return {};
    }
    std::vector<std::int64_t> rows(static_cast<std::size_t>(others) + 1, rest / others);
    rows[0] = first;
    return rows;
  }

  // What is said about it.

  void check_names() {
    std::set<std::string_view> names;
    const auto take_name = [&](const std::string& name) {
      if (!names.insert(name).second) faults_.push_back("two tensors would be called " + name);
    };
    for (const NamedView& view : renaming_.views) {
      take_name(view.tensor.name);
      for (const std::string& alias : view.tensor.aliases) take_name(alias);
    }
  }

  void refuse_faults() const {
    if (faults_.empty()) return;
    throw BadData({"LS-5015", where_,
                   "the tensors do not fit the table of " + std::string(map_.family) + " (" +
                       std::string(map_.theirs) + "): " + listed(faults_, "; "),
                   "use the family that the file is of, and a file that is whole"});
  }

  [[noreturn]] void refuse_family() const {
    std::vector<std::string> names;
    for (const StoredTensor& tensor : source_.tensors()) names.push_back(tensor.name);
    std::string families;
    for (const NameMap& map : name_maps()) {
      families += (families.empty() ? "" : ", ") + std::string(map.family);
    }
    const NameMap* guess = guess_family(names);
    throw BadData({"LS-5015", where_,
                   "none of the names is one that " + std::string(map_.family) + " has " +
                       (is_ours() ? "with us" : "in " + std::string(map_.theirs)),
                   guess != nullptr ? "they look like those of " + std::string(guess->family)
                                    : "the families with a table are " + families});
  }

  void add_notes() {
    const auto all = static_cast<std::int64_t>(source_.tensors().size());
    renaming_.notes.push_back(std::string(map_.family) + ": renamed " +
                              format_count(static_cast<std::int64_t>(known_)) + " of " +
                              counted(all, "tensor"));
    if (kept_.empty()) return;
    renaming_.notes.push_back(std::string(map_.family) +
                              " does not know, names kept: " + listed(kept_));
  }

  const TensorSource& source_;
  const NameMap& map_;
  Convention from_;
  const std::string& where_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t> by_name_;  // plain names -> entries_
  std::size_t known_ = 0;
  std::optional<std::int64_t> width_;
  std::set<std::string> parts_;   // that have been looked at
  std::set<std::string> merged_;  // our names that have been put together
  std::set<std::string> missing_;
  std::vector<std::string> kept_;
  std::vector<std::string> faults_;
  Renaming renaming_;
};

}  // namespace

Renaming rename(const TensorSource& source, const NameMap& map, Convention from,
                const std::string& where) {
  return Renamer(source, map, from, where).run();
}

std::unique_ptr<RenamedSource> under_other_names(std::unique_ptr<const TensorSource> source,
                                                 const NameMap& map, const std::string& where) {
  const auto from = convention_of(map, names_of(*source)).value_or(Convention::theirs);
  Renaming renaming = rename(*source, map, from, where);
  return std::make_unique<RenamedSource>(std::move(source), std::move(renaming));
}

std::vector<std::string> names_of(const TensorSource& source) {
  std::vector<std::string> names;
  for (const StoredTensor& tensor : source.tensors()) {
    names.push_back(tensor.name);
    names.insert(names.end(), tensor.aliases.begin(), tensor.aliases.end());
  }
  return names;
}

Renaming rename_stripped(const TensorSource& source, const Stripped& stripped) {
  Renaming renaming;
  renaming.notes = stripped.notes;
  auto next = stripped.names.begin();
  const auto take_name = [&] {
    LOCKSTEP_CHECK(next != stripped.names.end(), "a name for each tensor and alias is needed");
    return *next++;
  };
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    const StoredTensor& tensor = source.tensors()[i];
    NamedView view{tensor, {{i, 0, tensor.bytes()}}};
    view.tensor.name = take_name();
    for (std::string& alias : view.tensor.aliases) alias = take_name();
    renaming.views.push_back(std::move(view));
  }
  return renaming;
}

}  // namespace lockstep::checkpoint
