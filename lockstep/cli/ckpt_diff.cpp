// lockstep ckpt diff: where two checkpoints differ, and by how much.
#include <algorithm>
#include <array>
#include <ostream>
#include <thread>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/names/prefixes.h"
#include "lockstep/checkpoint/names/rename.h"
#include "lockstep/checkpoint/tools/diff.h"
#include "lockstep/cli/ckpt_common.h"
#include "lockstep/cli/commands.h"

namespace lockstep::cli {
namespace {

using checkpoint::CheckpointDiff;
using checkpoint::FormDiff;
using checkpoint::TensorDiff;
using nlohmann::ordered_json;

constexpr std::array kFlags{
    Flag{.name = "--tolerance",
         .value = "X",
         .help = "tensors whose elements are at most X apart count as the same",
         .type = ValueType::number,
         .minimum = 0},
    kMaxHeaderFlag,
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep ckpt diff model.pt model.safetensors", "whether they hold the same bits"},
    {"lockstep ckpt diff runs/a runs/b --tolerance 1e-6", "whether two runs came out alike"},
});

/// What is left of a comparison when `tolerance` is granted.
struct Verdict {
  CheckpointDiff diff;  // what counts as different
  std::size_t compared = 0;
  std::string hint{};  // what would make names common where none is
  [[nodiscard]] bool is_same() const {
    return diff.only_in_a.empty() && diff.only_in_b.empty() && diff.forms.empty() &&
           diff.tensors.empty();
  }
};

bool is_within(const TensorDiff& tensor, std::optional<double> tolerance) {
  if (tensor.are_bits_equal) return true;
  if (!tolerance) return false;
  return tensor.are_numbers && tensor.nan_on_one_side == 0 && tensor.max_abs <= *tolerance;
}

/// With a tolerance another type alone is no difference: its values were compared.
bool is_granted(const FormDiff& form, std::optional<double> tolerance) {
  return tolerance && form.shape_a == form.shape_b;
}

Verdict verdict_of(CheckpointDiff diff, std::optional<double> tolerance) {
  Verdict verdict{std::move(diff), 0, ""};
  verdict.compared = verdict.diff.tensors.size();
  std::erase_if(verdict.diff.tensors,
                [&](const TensorDiff& tensor) { return is_within(tensor, tolerance); });
  std::erase_if(verdict.diff.forms,
                [&](const FormDiff& form) { return is_granted(form, tolerance); });
  return verdict;
}

/// "did you mean to strip `model.` from the names of a.pt?"; empty when some names are common.
std::string hint_of(const CheckpointDiff& diff, const checkpoint::OpenCheckpoint& a,
                    const checkpoint::OpenCheckpoint& b) {
  if (!diff.tensors.empty() || !diff.forms.empty()) return "";
  const auto names_a = names_of(*a.source);
  const auto names_b = names_of(*b.source);
  if (names_a.empty() || names_b.empty()) return "";
  const checkpoint::PrefixHint hint = checkpoint::find_prefix_hint(names_a, names_b);
  if (hint.prefix.empty()) return "";
  return "did you mean to strip `" + hint.prefix + "` from the names of " +
         (hint.add ? b : a).path.string() + "? `lockstep ckpt convert IN OUT --strip " +
         hint.prefix + "` does";
}

ordered_json to_json(const Verdict& verdict) {
  ordered_json forms = ordered_json::array();
  for (const FormDiff& form : verdict.diff.forms) {
    forms.push_back({{"name", form.name},
                     {"dtype_a", form.dtype_a},
                     {"dtype_b", form.dtype_b},
                     {"shape_a", form.shape_a},
                     {"shape_b", form.shape_b}});
  }
  ordered_json tensors = ordered_json::array();
  for (const TensorDiff& tensor : verdict.diff.tensors) {
    tensors.push_back({{"name", tensor.name},
                       {"elements", tensor.elements},
                       {"differing", tensor.differing},
                       {"nan_on_one_side", tensor.nan_on_one_side},
                       {"max_abs", tensor.max_abs},
                       {"mean_abs", tensor.mean_abs},
                       {"max_rel", tensor.max_rel}});
  }
  return {{"same", verdict.is_same()},
          {"compared", verdict.compared},
          {"only_in_a", verdict.diff.only_in_a},
          {"only_in_b", verdict.diff.only_in_b},
          {"forms", forms},
          {"tensors", tensors},
          {"hint", verdict.hint}};
}

std::string table_of(const std::vector<TensorDiff>& tensors, const Context& context) {
  TextTable table({{"tensor"},
                   {"max", true},
                   {"mean", true},
                   {"max relative", true},
                   {"elements that differ", true}});
  const auto count = [](std::uint64_t value) {
    return format_count(static_cast<std::int64_t>(value));
  };
  for (const TensorDiff& tensor : tensors) {
    const auto number = [&](double value) {
      return tensor.are_numbers ? format_number(value, 4) : std::string("-");
    };
    std::string differing = count(tensor.differing) + " of " + count(tensor.elements);
    if (tensor.nan_on_one_side > 0) {
      differing += ", NaN on one side " + count(tensor.nan_on_one_side);
    }
    table.row({shown(tensor.name, context), number(tensor.max_abs), number(tensor.mean_abs),
               number(tensor.max_rel), differing});
  }
  return table.empty() ? "" : table.text(context);
}

void print(const Verdict& verdict, const Args& args, const Context& context) {
  const auto only = [&](const std::vector<std::string>& names, const std::string& where) {
    for (const std::string& name : names) {
      context.out << "only in " << shown(where, context) << ": " << shown(name, context) << "\n";
    }
  };
  only(verdict.diff.only_in_a, args.words()[0]);
  only(verdict.diff.only_in_b, args.words()[1]);
  for (const FormDiff& form : verdict.diff.forms) {
    context.out << shown(form.name, context) << ": " << form.dtype_a << " "
                << checkpoint::to_text(form.shape_a) << " against " << form.dtype_b << " "
                << checkpoint::to_text(form.shape_b) << "\n";
  }
  context.out << table_of(verdict.diff.tensors, context);
  const auto all = static_cast<std::int64_t>(verdict.compared);
  if (verdict.is_same()) {
    const bool is_near = args.has("--tolerance");
    context.out << "the same: " << counted(all, "tensor")
                << (is_near ? " within " + args.text("--tolerance") : ", bit for bit") << "\n";
  } else if (all == 0) {
    context.out << "different: no tensor is in both\n";
    if (!verdict.hint.empty()) context.out << "  " << shown(verdict.hint, context) << "\n";
  } else {
    context.out << "different: "
                << format_count(static_cast<std::int64_t>(verdict.diff.tensors.size())) << " of "
                << counted(all, "tensor") << " that both have\n";
  }
  context.out << std::flush;
}

std::vector<Problem> check(const Args& args, const Context&) {
  std::vector<Problem> problems;
  check_size(args, kMaxHeaderFlag.name, problems);
  return problems;
}

Exit run(const Args& args, const Context& context) {
  const auto a = open_given(args, args.words()[0]);
  const auto b = open_given(args, args.words()[1]);
  checkpoint::DiffOptions options;
  options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
  std::optional<WorkLine> line;
  line.emplace(context, "comparing");
  options.progress = [&](std::uint64_t done, std::uint64_t all) { line->show(done, all); };
  CheckpointDiff diff = checkpoint::diff(*a.source, *b.source, options);
  line.reset();
  std::string hint = hint_of(diff, a, b);
  Verdict verdict = verdict_of(std::move(diff), args.number("--tolerance"));
  verdict.hint = std::move(hint);
  if (context.json) {
    context.out << to_line(to_json(verdict)) << std::endl;
  } else {
    print(verdict, args, context);
  }
  return verdict.is_same() ? Exit::ok : Exit::failed;
}

}  // namespace

Command ckpt_diff_command() {
  return {
      .name = "ckpt diff",
      .summary = "where two checkpoints differ, and by how much",
      .description =
          "Compares the tensors of two checkpoints of any formats by their names and aliases. "
          "Exit code 0 when all have the same bits (with --tolerance: the same names and "
          "shapes, and values that near), else 1.",
      .examples = kExamples,
      .positional = {.name = "A B", .help = "two files or folders", .at_least = 2, .at_most = 2},
      .flags = kFlags,
      .json =
          "same, compared, only_in_a, only_in_b, forms (other types or shapes), tensors that "
          "differ (name, elements, differing, nan_on_one_side, max_abs, mean_abs, max_rel), hint. "
          "Numbers that are not finite are null.",
      .run = run,
      .check = check};
}

}  // namespace lockstep::cli
