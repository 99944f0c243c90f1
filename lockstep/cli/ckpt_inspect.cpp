// lockstep ckpt inspect: what is in a checkpoint, from its headers.
#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <thread>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/tools/tensor_stats.h"
#include "lockstep/cli/ckpt_common.h"
#include "lockstep/cli/commands.h"

namespace lockstep::cli {
namespace {

using checkpoint::StoredTensor;
using checkpoint::TensorStats;
using nlohmann::ordered_json;

constexpr std::array kFlags{
    Flag{.name = "--stats",
         .help = "also read the data: least, greatest, mean, deviation, NaN, histogram"},
    Flag{.name = "--filter",
         .value = "PATTERN",
         .help = "only tensors of that name: with * and ? as in a shell, else a part of it"},
    kMaxHeaderFlag,
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep ckpt inspect runs/mnist", "the tensors of the newest complete checkpoint"},
    {"lockstep ckpt inspect model.safetensors --stats --filter '*.bias'",
     "their values, read from the data"},
    {"lockstep ckpt inspect model.pt --json", "one JSON document"},
});

/// A tensor of the source and, where asked for, its values.
struct Seen {
  const StoredTensor* tensor = nullptr;
  std::optional<TensorStats> stats{};
};

/// What one look found.
struct Look {
  checkpoint::OpenCheckpoint open;
  std::vector<Seen> tensors;
  std::uint64_t bytes = 0;
  std::uint64_t parameters = 0;  // elements of all but optimizer state and buffers
};

int threads_for_stats() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
}

Look look_at(const Args& args, const Context& context) {
  Look look{open_given(args, args.words().front()), {}};
  const auto tensors = look.open.source->tensors();
  const std::string filter = args.text("--filter");
  for (const StoredTensor& tensor : tensors) {
    const bool is_wanted =
        filter.empty() || is_named(tensor.name, filter) ||
        std::any_of(tensor.aliases.begin(), tensor.aliases.end(),
                    [&](const std::string& alias) { return is_named(alias, filter); });
    if (!is_wanted) continue;
    look.tensors.push_back({&tensor});
    look.bytes += tensor.bytes();
    if (tensor.kind != "optimizer" && tensor.kind != "buffer") {
      look.parameters += elements_of(tensor.shape);
    }
  }
  if (!args.has("--stats")) return look;
  WorkLine line(context, "reading");
  std::uint64_t done = 0;
  for (Seen& seen : look.tensors) {
    const auto index = static_cast<std::size_t>(seen.tensor - tensors.data());
    seen.stats = checkpoint::tensor_stats(*look.open.source, index, threads_for_stats());
    done += seen.tensor->bytes();
    line.show(done, look.bytes);
  }
  return look;
}

ordered_json to_json(const TensorStats& stats) {
  ordered_json buckets = ordered_json::array();
  for (const auto& bucket : stats.histogram) {
    buckets.push_back({bucket.low, bucket.high, bucket.count});
  }
  return {{"min", stats.min},     {"max", stats.max},           {"mean", stats.mean},
          {"std", stats.std},     {"nan", stats.nans},          {"inf", stats.infinities},
          {"zeros", stats.zeros}, {"elements", stats.elements}, {"histogram", buckets}};
}

ordered_json to_json(const Look& look) {
  const auto& source = *look.open.source;
  ordered_json tensors = ordered_json::array();
  for (const Seen& seen : look.tensors) {
    const StoredTensor& tensor = *seen.tensor;
    ordered_json row{{"name", tensor.name},   {"dtype", tensor.dtype},
                     {"shape", tensor.shape}, {"bytes", tensor.bytes()},
                     {"kind", tensor.kind},   {"aliases", tensor.aliases}};
    if (seen.stats) row["stats"] = to_json(*seen.stats);
    tensors.push_back(std::move(row));
  }
  ordered_json skipped = ordered_json::array();
  for (const auto& entry : source.skipped()) {
    skipped.push_back({{"name", entry.name}, {"why", entry.why}});
  }
  const auto facts = source.facts();
  return {{"format", source.format()},
          {"path", look.open.path.string()},
          {"tensors", tensors},
          {"total_bytes", look.bytes},
          {"parameters", look.parameters},
          {"facts", facts.empty() ? ordered_json::object() : ordered_json(facts)},
          {"skipped", skipped}};
}

std::string name_of(const StoredTensor& tensor, const Context& context) {
  std::string name = shown(tensor.name, context);
  for (const std::string& alias : tensor.aliases) name += " = " + shown(alias, context);
  return name;
}

std::vector<std::string> stats_cells(const std::optional<TensorStats>& stats,
                                     const Context& context) {
  if (!stats) return {"no numbers"};
  const auto number = [](double value) {
    return std::isnan(value) ? std::string("-") : format_number(value, 4);
  };
  const auto count = [](std::uint64_t value) {
    return format_count(static_cast<std::int64_t>(value));
  };
  return {number(stats->min),  number(stats->max),
          number(stats->mean), number(stats->std),
          count(stats->nans),  count(stats->infinities),
          count(stats->zeros), sparkline(*stats, context.utf8)};
}

std::string table_of(const Look& look, bool has_stats, const Context& context) {
  std::vector<TextTable::Column> columns{{"tensor"}, {"type"}, {"shape"}, {"size", true}, {"kind"}};
  if (has_stats) {
    for (const char* title : {"min", "max", "mean", "std", "NaN", "inf", "zeros"}) {
      columns.push_back({title, true});
    }
    columns.push_back({"values, least first"});
  }
  TextTable table(columns);
  for (const Seen& seen : look.tensors) {
    const StoredTensor& tensor = *seen.tensor;
    std::vector<std::string> cells{name_of(tensor, context), tensor.dtype,
                                   checkpoint::to_text(tensor.shape), bytes_text(tensor.bytes()),
                                   shown(tensor.kind.empty() ? "-" : tensor.kind, context)};
    if (has_stats) {
      for (std::string& cell : stats_cells(seen.stats, context)) cells.push_back(std::move(cell));
    }
    table.row(std::move(cells));
  }
  return table.empty() ? "" : table.text(context) + "\n";
}

/// A whole configuration may stand in one fact; --json has all of it.
std::string cut(const std::string& text) {
  constexpr std::size_t kMostBytes = 200;
  return text.size() <= kMostBytes ? text : text.substr(0, kMostBytes) + " ...";
}

void print(const Look& look, bool has_stats, const Context& context) {
  const auto& source = *look.open.source;
  context.out << table_of(look, has_stats, context);
  const auto all = static_cast<std::int64_t>(source.tensors().size());
  const auto seen = static_cast<std::int64_t>(look.tensors.size());
  context.out << shown(look.open.path.string(), context) << " (" << source.format() << "): "
              << (seen == all ? counted(all, "tensor")
                              : format_count(seen) + " of " + counted(all, "tensor"))
              << ", " << format_count(static_cast<std::int64_t>(look.parameters)) << " parameters, "
              << bytes_text(look.bytes) << "\n";
  if (context.quiet) return;
  for (const auto& [key, value] : source.facts()) {
    if (!value.empty()) context.out << "  " << shown(cut(key + " " + value), context) << "\n";
  }
  for (const auto& entry : source.skipped()) {
    context.out << "  skipped " << shown(entry.name + ": " + entry.why, context) << "\n";
  }
}

std::vector<Problem> check(const Args& args, const Context&) {
  std::vector<Problem> problems;
  check_size(args, kMaxHeaderFlag.name, problems);
  return problems;
}

Exit run(const Args& args, const Context& context) {
  const Look look = look_at(args, context);
  if (context.json) {
    context.out << to_line(to_json(look)) << std::endl;
  } else {
    print(look, args.has("--stats"), context);
    context.out << std::flush;
  }
  return Exit::ok;
}

}  // namespace

Command ckpt_inspect_command() {
  return {.name = "ckpt inspect",
          .summary = "what is in a checkpoint of any format, from its headers",
          .description =
              "Shows names, types, shapes and sizes, the facts that stand beside them and what is "
              "skipped. Reads own checkpoints (of a run the newest complete one), safetensors and "
              "files of torch.save(), whose pickle is never executed. Only headers are read; with "
              "--stats the data too. A histogram has a column for each power of two, the least "
              "values on the left; a blank is empty.",
          .examples = kExamples,
          .positional = {.name = "PATH", .help = "a file or folder", .at_least = 1},
          .flags = kFlags,
          .json =
              "format, path, tensors (name, dtype, shape, bytes, kind, aliases, and with --stats "
              "stats), total_bytes, parameters, facts, skipped. Numbers that are not finite are "
              "null.",
          .run = run,
          .check = check};
}

}  // namespace lockstep::cli
