#include "lockstep/checkpoint/weights/weight_views.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/names/slice.h"
#include "lockstep/checkpoint/weights/their_names.h"

namespace lockstep::checkpoint {
namespace {

/// Rows are positions: a model for shorter samples needs the first of them alone.
constexpr std::string_view kPositions = "embed.wpe.weight";

NamedView whole_view(const TensorSource& source, std::size_t index) {
  const StoredTensor& tensor = source.tensors()[index];
  return {tensor, {{index, 0, tensor.bytes()}}};
}

/// Puts our tensors together from those of a table.
class FromTable {
 public:
  FromTable(const TensorSource& source, const Naming& naming)
      : source_(source),
        map_(*naming.map),
        names_(naming.names),
        theirs_(map_, names_),
        is_used_(source.tensors().size()) {
    for (std::size_t i = 0; i < source.tensors().size(); ++i) {
      owners_.insert(owners_.end(), source.tensors()[i].aliases.size() + 1, i);
    }
  }

  WeightViews run(std::span<const WantedTensor> wanted) {
    found_.notes.push_back("names of " + std::string(map_.theirs));
    add_twice();
    for (const WantedTensor& tensor : wanted) add(tensor);
    for (std::size_t i = 0; i < source_.tensors().size(); ++i) {
      if (is_used_[i] || !why_unneeded(map_, source_.tensors()[i].name).empty()) continue;
      found_.views.push_back(whole_view(source_, i));
    }
    return std::move(found_);
  }

 private:
  void add_twice() {
    for (const TheirNames::Pair& pair : theirs_.twice()) {
      if (owners_[pair.first] == owners_[pair.second]) continue;
      is_used_[owners_[pair.second]] = true;
      found_.twice.push_back(names_[pair.first] + " and " + names_[pair.second] +
                             " are one tensor's names");
    }
  }

  /// A view for each name of the tensor that another tensor of the file stands for.
  void add(const WantedTensor& tensor) {
    std::vector<std::size_t> firsts;
    add_view(tensor.name, tensor.name, /*may_tie=*/tensor.aliases.empty(), firsts);
    for (const std::string& alias : tensor.aliases) add_view(alias, tensor.name, false, firsts);
    if (firsts.empty()) return;
    found_.why_missing.erase(tensor.name);
  }

  /// \param may_tie take the other of two tied tensors where only that is there.
  /// \param firsts tensors that views of the same tensor begin with.
  void add_view(const std::string& name, const std::string& wanted, bool may_tie,
                std::vector<std::size_t>& firsts) {
    std::vector<std::size_t> places;
    std::string lacking;
    const std::vector<std::string> plain_names = their_names_of(map_, name);
    for (const std::string& plain : plain_names) {
      auto place = theirs_.find(plain);
      if (!place && may_tie) place = find_tied(plain, name);
      if (place) {
        places.push_back(owners_[*place]);
        is_used_[owners_[*place]] = true;
      } else {
        lacking += (lacking.empty() ? "" : ", ") + plain;
      }
    }
    if (!lacking.empty() && name == wanted) found_.why_missing[name] = "no " + lacking;
    if (!lacking.empty() || places.empty()) return;
    if (std::find(firsts.begin(), firsts.end(), places.front()) != firsts.end()) return;
    firsts.push_back(places.front());
    put_together(name, wanted, places);
  }

  /// Where the file has the first of two tied tensors and not the second.
  std::optional<std::size_t> find_tied(const std::string& plain, const std::string& name) {
    for (const Tie& tie : map_.ties) {
      if (tie.theirs_second != plain) continue;
      const auto place = theirs_.find(tie.theirs);
      if (place) found_.notes.push_back(name + " starts as a copy of " + std::string(tie.ours));
      return place;
    }
    return std::nullopt;
  }

  void put_together(const std::string& name, const std::string& wanted,
                    const std::vector<std::size_t>& places) {
    const Layout layout = find_name(map_, Convention::ours, name)->rule->layout;
    std::vector<Slice> slices;
    for (const std::size_t place : places) {
      slices.push_back(slice_all(source_, place, layout));
      if (!slices.back().fault.empty()) {
        found_.misfits[wanted] = slices.back().fault;
        return;
      }
    }
    Stack made = stack(slices);
    if (!made.fault.empty()) {
      found_.misfits[wanted] = made.fault;
      return;
    }
    made.view.tensor.name = name;
    found_.views.push_back(std::move(made.view));
  }

  const TensorSource& source_;
  const NameMap& map_;
  const std::vector<std::string>& names_;
  TheirNames theirs_;
  std::vector<std::size_t> owners_;  // of each name: whose it is
  std::vector<bool> is_used_;
  WeightViews found_;
};

/// \returns whether the first rows of the stored tensor are the wanted one.
bool is_start_of(const Shape& wanted, const Shape& stored) {
  return wanted.size() == 2 && stored.size() == 2 && wanted[1] == stored[1] &&
         wanted[0] < stored[0];
}

void cut_positions(WeightViews& found, std::span<const WantedTensor> wanted) {
  for (const WantedTensor& tensor : wanted) {
    if (tensor.name != kPositions) continue;
    for (NamedView& view : found.views) {
      const bool fits = view.tensor.name == kPositions && view.parts.size() == 1 &&
                        view.parts[0].turned_columns == 0 &&
                        is_start_of(tensor.shape, view.tensor.shape);
      const auto bytes = tensor_bytes(view.tensor.dtype, tensor.shape);
      if (!fits || !bytes) continue;
      found.notes.push_back("the model has the first " + format_count(tensor.shape[0]) + " of " +
                            format_count(view.tensor.shape[0]) + " positions");
      view.tensor.shape = tensor.shape;
      view.parts[0].bytes = *bytes;
    }
  }
}

WeightViews under_own_names(const TensorSource& source) {
  WeightViews found;
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    found.views.push_back(whole_view(source, i));
  }
  return found;
}

}  // namespace

WeightViews weight_views(const TensorSource& source, const Naming& naming,
                         std::span<const WantedTensor> wanted) {
  WeightViews found =
      naming.map == nullptr ? under_own_names(source) : FromTable(source, naming).run(wanted);
  cut_positions(found, wanted);
  return found;
}

}  // namespace lockstep::checkpoint
