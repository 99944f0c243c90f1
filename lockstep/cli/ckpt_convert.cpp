// lockstep ckpt convert, ckpt reshard: a checkpoint of one format or cut as another.
#include <algorithm>
#include <array>
#include <ostream>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/disk_fault.h"
#include "lockstep/checkpoint/format/step_sink.h"
#include "lockstep/checkpoint/format/step_source.h"
#include "lockstep/checkpoint/names/name_map.h"
#include "lockstep/checkpoint/names/rename.h"
#include "lockstep/checkpoint/tools/copy_tensors.h"
#include "lockstep/checkpoint/tools/sink_for.h"
#include "lockstep/cli/ckpt_common.h"
#include "lockstep/cli/commands.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::Output;
using checkpoint::TensorSource;
using nlohmann::ordered_json;

constexpr Flag kForceFlag{.name = "--force", .help = "replace what is at OUT"};

constexpr std::array kConvertFlags{
    Flag{.name = "--to",
         .value = "FORMAT",
         .help = "format of OUT where its name does not say; lockstep: OUT is the folder of step-N",
         .offers = checkpoint::kWrittenFormats},
    Flag{.name = "--strip",
         .value = "PREFIX,...",
         .help =
             "prefixes to take off names, or none; default: marks of wrappers, and module. where "
             "every name has it"},
    Flag{.name = "--names",
         .value = "FAMILY",
         .help = "to the names of Hugging Face if IN has ours, and to ours if IN has theirs",
         .words = "gpt2|llama|bert|resnet"},
    Flag{.name = "--max-shard",
         .value = "SIZE",
         .help = "safetensors in shards of at most so many bytes, with an index"},
    kForceFlag,
    kMaxHeaderFlag,
};

constexpr std::array kReshardFlags{
    Flag{.name = "--ranks",
         .value = "N",
         .help = "into how many files weights, and optimizer state, are cut",
         .type = ValueType::integer,
         .minimum = 1,
         .maximum = checkpoint::kMostSinkRanks},
    kForceFlag,
    kMaxHeaderFlag,
};

constexpr auto kConvertExamples = std::to_array<Example>({
    {"lockstep ckpt convert model.pt model.safetensors", "without executing what is in the pickle"},
    {"lockstep ckpt convert runs/mnist out/ --to safetensors --max-shard 5GB",
     "the newest checkpoint of a run as shards with an index"},
    {"lockstep ckpt convert hf-gpt2/ runs/start --to lockstep --names gpt2",
     "a model of Hugging Face as a checkpoint that a run goes on from"},
});

constexpr auto kReshardExamples = std::to_array<Example>({
    {"lockstep ckpt reshard runs/a/checkpoints/step-500 cut/ --ranks 4", "as 4 ranks write it"},
});

/// What was read, under the names that are written.
struct Input {
  std::unique_ptr<const TensorSource> source;
  std::optional<checkpoint::Manifest> manifest;  // where it is one of ours
  fs::path path;
  std::vector<std::string> notes;
};

Input open_input(const Args& args) {
  checkpoint::OpenCheckpoint open = open_given(args, args.words()[0]);
  Input input{std::move(open.source), {}, open.path, {}};
  if (const auto* step = dynamic_cast<const checkpoint::StepSource*>(input.source.get())) {
    input.manifest = step->manifest();
  }
  return input;
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    if (end > at) parts.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

/// Our own checkpoints have the names of their model, so nothing is taken off unasked.
void strip(const Args& args, Input& input) {
  const std::string asked = args.text("--strip");
  if (asked == "none" || (asked.empty() && input.manifest)) return;
  const std::vector<std::string> names = names_of(*input.source);
  const checkpoint::Stripped stripped =
      asked.empty() ? checkpoint::strip_prefixes(names, {}, input.path.string())
                    : checkpoint::strip_given(names, split(asked), input.path.string());
  input.notes.insert(input.notes.end(), stripped.notes.begin(), stripped.notes.end());
  if (stripped.names == names) return;
  checkpoint::Renaming renaming = rename_stripped(*input.source, stripped);
  input.source =
      std::make_unique<checkpoint::RenamedSource>(std::move(input.source), std::move(renaming));
}

void rename(const Args& args, Input& input) {
  if (!args.has("--names")) return;
  const checkpoint::NameMap* map = checkpoint::find_name_map(args.text("--names"));
  LOCKSTEP_CHECK(map != nullptr, "a family of names without a table");
  auto renamed = checkpoint::under_other_names(std::move(input.source), *map, input.path.string());
  input.notes.insert(input.notes.end(), renamed->notes().begin(), renamed->notes().end());
  input.source = std::move(renamed);
}

/// Optimizer state by its name where the format does not say.
std::vector<checkpoint::StoredTensor> tensors_of(const TensorSource& source) {
  std::vector<checkpoint::StoredTensor> tensors(source.tensors().begin(), source.tensors().end());
  for (checkpoint::StoredTensor& tensor : tensors) {
    const bool is_state = !checkpoint::split_state_name(tensor.name).suffix.empty();
    if (tensor.kind.empty() && is_state) tensor.kind = "optimizer";
  }
  return tensors;
}

std::uint64_t bytes_of(const TensorSource& source) {
  std::uint64_t bytes = 0;
  for (const auto& tensor : source.tensors()) bytes += tensor.bytes();
  return bytes;
}

/// Writes `input` to OUT. \throws EnvironmentFault (LS-5001, LS-5002) for what the disk refuses.
Output write(const Args& args, const Context& context, const Input& input,
             const checkpoint::OutputOptions& options, double& seconds) {
  const fs::path out = args.words()[1];
  const std::uint64_t bytes = bytes_of(*input.source);
  checkpoint::OutputFacts facts{input.source->facts()};
  if (input.manifest) facts.manifest = &*input.manifest;
  try {
    checkpoint::require_room({out.has_parent_path() ? out.parent_path() : fs::path("."), bytes});
    Output output = checkpoint::sink_for(out, tensors_of(*input.source), facts, options);
    WorkLine line(context, "writing " + shown(out.string(), context));
    checkpoint::CopyOptions copy;
    copy.progress = [&](std::uint64_t done, std::uint64_t all) { line.show(done, all); };
    copy_tensors(*input.source, *output.sink, copy);
    output.sink->commit();
    seconds = line.elapsed_s();
    return output;
  } catch (const fs::filesystem_error& error) {
    throw checkpoint::disk_fault(error, {out, bytes});
  }
}

void report(const Input& input, const Output& output, double seconds, const Context& context) {
  const auto count = static_cast<std::int64_t>(input.source->tensors().size());
  const std::uint64_t bytes = bytes_of(*input.source);
  std::vector<std::string> notes = input.notes;
  notes.insert(notes.end(), output.notes.begin(), output.notes.end());
  for (const std::string& text : notes) note(context, "note", text);
  for (const auto& entry : input.source->skipped()) {
    note(context, "warning", entry.name + " is left out: " + entry.why);
  }
  if (context.json) {
    ordered_json skipped = ordered_json::array();
    for (const auto& entry : input.source->skipped()) {
      skipped.push_back({{"name", entry.name}, {"why", entry.why}});
    }
    context.out << to_line({{"path", output.path.string()},
                            {"format", output.format},
                            {"tensors", count},
                            {"bytes", bytes},
                            {"seconds", seconds},
                            {"notes", notes},
                            {"skipped", skipped}})
                << std::endl;
  } else if (!context.quiet) {
    context.out << "wrote " << shown(output.path.string(), context) << " (" << output.format
                << "): " << counted(count, "tensor") << ", " << bytes_text(bytes) << " in "
                << format_duration(seconds) << ", " << rate_text(bytes, seconds) << std::endl;
  }
}

std::vector<Problem> check_convert(const Args& args, const Context&) {
  std::vector<Problem> problems;
  check_size(args, kMaxHeaderFlag.name, problems);
  check_size(args, "--max-shard", problems);
  return problems;
}

Exit run_convert(const Args& args, const Context& context) {
  const checkpoint::OutputOptions options{
      .format = args.text("--to"),
      .max_shard_bytes = size_of(args, "--max-shard").value_or(0),
      .force = args.has("--force")};
  Input input = open_input(args);
  strip(args, input);
  rename(args, input);
  double seconds = 0;
  const Output output = write(args, context, input, options, seconds);
  report(input, output, seconds, context);
  return Exit::ok;
}

std::vector<Problem> check_reshard(const Args& args, const Context&) {
  std::vector<Problem> problems;
  check_size(args, kMaxHeaderFlag.name, problems);
  if (!args.has("--ranks")) {
    problems.push_back(
        {"LS-1021", "lockstep ckpt reshard", "needs to know for how many ranks", "add --ranks N"});
  }
  return problems;
}

Exit run_reshard(const Args& args, const Context& context) {
  const Input input = open_input(args);
  if (!input.manifest) {
    throw UsageError({{"LS-1021", input.path.string(),
                       "is " + std::string(input.source->format()) +
                           ", and only checkpoints of lockstep are cut for ranks",
                       "make one of it first: `lockstep ckpt convert IN OUT --to lockstep`"}});
  }
  const checkpoint::OutputOptions options{.format = "lockstep",
                                          .ranks = static_cast<int>(*args.integer("--ranks")),
                                          .force = args.has("--force")};
  double seconds = 0;
  const Output output = write(args, context, input, options, seconds);
  report(input, output, seconds, context);
  return Exit::ok;
}

constexpr std::string_view kJson =
    "path, format, tensors, bytes, seconds, notes, skipped (name, why).";

}  // namespace

Command ckpt_convert_command() {
  return {
      .name = "ckpt convert",
      .summary = "a checkpoint of any format as another one",
      .description =
          "Reads what `ckpt inspect` reads and writes safetensors (one file, or shards with an "
          "index), a .pt that torch.load(weights_only=True) reads, or a checkpoint of lockstep. "
          "Every tensor keeps its bits; aliases, and the facts that the other format has a place "
          "for, are kept. Memory does not grow with the model, except that a matrix which another "
          "convention turns over is held once. What is found before names is reported; entries "
          "that are no tensors are left out with a warning. OUT appears whole or not at all.",
      .examples = kConvertExamples,
      .positional = {.name = "IN OUT",
                     .help = "a file or folder to read, and one to write",
                     .at_least = 2,
                     .at_most = 2},
      .flags = kConvertFlags,
      .json = kJson,
      .run = run_convert,
      .check = check_convert};
}

Command ckpt_reshard_command() {
  return {.name = "ckpt reshard",
          .summary = "a checkpoint of lockstep, cut into files for another number of ranks",
          .description =
              "Writes OUT/step-N with the files that N data-parallel ranks would have written. A "
              "run does not need this: it loads any cut on any number of ranks. It helps where "
              "files have to be smaller, or one file is wanted.",
          .examples = kReshardExamples,
          .positional = {.name = "IN OUT",
                         .help = "a checkpoint, and the folder that step-N is written to",
                         .at_least = 2,
                         .at_most = 2},
          .flags = kReshardFlags,
          .json = kJson,
          .run = run_reshard,
          .check = check_reshard};
}

}  // namespace lockstep::cli
