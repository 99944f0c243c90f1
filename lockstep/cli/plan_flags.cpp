#include "lockstep/cli/plan_flags.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "lockstep/base/units.h"
#include "lockstep/cli/parser.h"
#include "lockstep/cli/plan_questions.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/config/convert.h"

namespace lockstep::cli {
namespace {

// So that no product of them passes 64 bits.
constexpr double kMostDevices = 1'000'000;
constexpr double kMostRanks = 10'000;  // of one way to split
constexpr double kMostSamples = 1'000'000;

constexpr Flag count_flag(std::string_view name, std::string_view help, double minimum = 1,
                          double maximum = kMostRanks) {
  return {.name = name,
          .value = "N",
          .help = help,
          .type = ValueType::integer,
          .minimum = minimum,
          .maximum = maximum};
}

constexpr std::array kFlags{
    kNprocFlag,
    kSetFlag,
    Flag{.name = "--check", .help = "exit 1 when it does not fit"},
    Flag{.name = "--calibrate",
         .help = "first measure this machine, and keep it for all plans of runs on it"},
    Flag{.name = "--states-only", .help = "count parameters, gradients and optimizer state only"},
    Flag{.name = "--model",
         .value = "NAME|FILE",
         .help = "plan this model instead: a name (docs/guides/models.md) or a Hugging Face "
                 "config.json"},
    Flag{.name = "--params",
         .value = "NUMBER",
         .help = "plan a GPT-like model of so many parameters: 7e9, 7B, 350M"},
    count_flag("--gpus", "devices of the plan; default 1, or what the degrees multiply to", 1,
               kMostDevices),
    Flag{.name = "--gpu",
         .value = "NAME",
         .help = "which device: A100-80G, H100-80G, V100-32G, A64FX, ..."},
    Flag{.name = "--cluster",
         .value = "SPEC|FILE",
         .help = "devices and hosts in one: 8xA100-80G*4 is four hosts of eight; or a TOML file "
                 "(docs/guides/planning.md)"},
    Flag{.name = "--precision",
         .value = "NAME",
         .help = "how numbers are stored; default bf16: 16 B a parameter",
         .offers = "fp32|fp16|bf16|bf16-fp32grad|fp16-20|fp32-master-cast|amp|bf16-only"},
    count_flag("--zero", "ZeRO stage: 1 shares the optimizer, 2 and gradients, 3 and parameters", 0,
               3),
    count_flag("--data", "data-parallel ranks; default what the other degrees leave", 1,
               kMostDevices),
    count_flag("--tensor", "tensor-parallel ranks; default 1"),
    count_flag("--pipeline", "pipeline stages; default 1"),
    count_flag("--context", "ranks that share the tokens of a sample; default 1"),
    count_flag("--expert", "expert-parallel ranks, among the data ranks; default 1"),
    Flag{.name = "--keep-gathered",
         .help =
             "in a pipeline with --zero 2 or 3: weights stay gathered and gradients whole until "
             "a step ends (FSDP: reshard_after_forward=False)"},
    count_flag("--tables",
               "data ranks that share the rows of embedding tables; default all of them"),
    Flag{.name = "--sequence", .help = "norms and dropout are shared by the tensor ranks"},
    Flag{.name = "--schedule",
         .value = "NAME",
         .help = "of a pipeline; default 1f1b, interleaved with --chunks",
         .words = "gpipe|1f1b|interleaved"},
    count_flag("--chunks", "pieces of a pipeline stage, interleaved; default 1"),
    Flag{.name = "--cuts",
         .value = "N,N,...",
         .help = "layers of each stage, or of each of its chunks; default as many in each"},
    count_flag("--shard", "ranks that share states; default all data ranks", 1, kMostDevices),
    count_flag("--secondary-shard", "ranks that share a second copy of the weights (hpZ)", 1,
               kMostDevices),
    count_flag("--micro-batch", "samples of one forward; default 1", 1, kMostSamples),
    count_flag("--global-batch", "samples of a step", 1, 1e9),
    count_flag("--accumulation", "micro-batches of a rank and step", 1, kMostSamples),
    count_flag("--seq-len", "tokens of a sample; default what the model was made for", 1, 1e8),
    Flag{.name = "--recompute",
         .value = "WHAT",
         .help = "computed again in backward: nothing, attention's scores, or whole layers; "
                 "default none",
         .words = "none|selective|full"},
    Flag{.name = "--flash-attention",
         .help = "attention does not keep its scores; default where PyTorch 2 has a kernel for it"},
    Flag{.name = "--no-flash-attention", .help = "attention makes its scores whole"},
    Flag{.name = "--offload",
         .value = "WHERE",
         .help = "optimizer and, with --zero 3, parameters",
         .words = "none|cpu|nvme"},
    Flag{.name = "--offload-optimizer",
         .value = "WHERE",
         .help = "the optimizer; from --zero 2 on gradients too",
         .words = "none|cpu|nvme"},
    Flag{.name = "--offload-parameters",
         .value = "WHERE",
         .help = "parameters, with --zero 3",
         .words = "none|cpu|nvme"},
    Flag{.name = "--deepspeed",
         .value = "FILE",
         .help =
             "go by a ds_config.json and fill its \"auto\" values; with --states-only, states by "
             "DeepSpeed's own estimators"},
    Flag{.name = "--largest-layer",
         .value = "NUMBER",
         .help = "its parameters, for those estimators; default the model's largest tensor"},
    Flag{.name = "--tokens",
         .value = "NUMBER",
         .help = "of the whole training, for its length: 300e9"},
    Flag{.name = "--samples",
         .value = "NUMBER",
         .help = "the same in samples, for models without tokens: 90 epochs of ImageNet are 115e6"},
    Flag{.name = "--read-rate",
         .value = "BYTES",
         .help = "that a host reads of its data in a second, such as 2GB: a step waits for its "
                 "samples where that is too little"},
    Flag{.name = "--sample-bytes",
         .value = "BYTES",
         .help = "of a sample as it is stored; default 2 or 4 a token, 1 a colour of a pixel"},
    count_flag("--loader-rate", "samples that a host reads and prepares in a second", 1, 1e12),
    Flag{.name = "--data-bytes",
         .value = "BYTES",
         .help = "of the whole data set, such as 5GB: few data cannot use a large batch"},
    count_flag("--cores", "of a host, for the number of its data workers", 1, 100'000),
    Flag{.name = "--control-flow", .help = "forward takes another way for other data"},
    Flag{.name = "--search",
         .help =
             "find the fastest layout that fits, of all of these devices at one global batch; of "
             "a RUN.toml on this host, the ranks and the micro-batch"},
    Flag{.name = "--need-within",
         .value = "DURATION",
         .help = "when --tokens must be trained, such as 3d; with --search, the fewest devices "
                 "that do it"},
    Flag{.name = "--mtbf",
         .value = "DURATION",
         .help = "mean time between failures of one device, such as 2000d: how much of the time "
                 "is progress, and how often to save"},
    Flag{.name = "--checkpoint-cost",
         .value = "DURATION",
         .help = "that training stands still for a checkpoint; default 30s"},
    Flag{.name = "--restart-time",
         .value = "DURATION",
         .help = "from a failure until steps run again; default 10min"},
    Flag{.name = "--timeline",
         .value = "FILE",
         .help = "write the simulated step as a Chrome trace (ui.perfetto.dev)"},
};

/// Of both questions.
constexpr std::array<std::string_view, 3> kShared{"--check", "--states-only", "--calibrate"};
/// One of these asks for a model on named devices.
constexpr std::array<std::string_view, 5> kAnchors{"--model", "--params", "--gpus", "--gpu",
                                                   "--cluster"};

template <std::size_t N>
bool is_one_of(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

struct Pair {
  std::string_view one;
  std::string_view other;
  std::string_view why;
};

/// Each says what the other says.
constexpr auto kContradictions = std::to_array<Pair>({
    {"--model", "--params", "both name the model"},
    {"--cluster", "--gpu", "both name the device"},
    {"--cluster", "--gpus", "both say how many devices there are"},
    {"--flash-attention", "--no-flash-attention", "both say how attention is computed"},
    {"--tokens", "--samples", "both say how much is trained"},
    {"--offload", "--offload-optimizer", "both say where the optimizer is"},
    {"--offload", "--offload-parameters", "both say where parameters are"},
    {"--deepspeed", "--zero", "the file says the stage"},
    {"--deepspeed", "--offload", "the file says what is offloaded"},
    {"--deepspeed", "--offload-optimizer", "the file says what is offloaded"},
    {"--deepspeed", "--offload-parameters", "the file says what is offloaded"},
});

void contradict(std::string_view one, std::string_view other, std::string_view why,
                std::vector<Problem>& problems) {
  problems.push_back({"LS-1020", std::string(one),
                      "contradicts " + std::string(other) + ": " + std::string(why),
                      "keep one of the two"});
}

std::string_view first_anchor(const Args& args) {
  for (const std::string_view anchor : kAnchors) {
    if (args.has(anchor)) return anchor;
  }
  return "";
}

void check_of_this_host(const Args& args, std::vector<Problem>& problems) {
  for (const std::string_view model : {"--model", "--params"}) {
    if (args.words().empty() || !args.has(model)) continue;
    contradict(args.words().front(), model, "both name the model", problems);
  }
  if (args.has("--calibrate")) {
    contradict("--calibrate", first_anchor(args),
               "one measures this host, the other is of named devices", problems);
  }
  if (args.has(kNprocFlag.name)) {
    contradict(kNprocFlag.name, first_anchor(args),
               "one is of ranks on this host, the other of named devices", problems);
  }
}

void check_details(const Args& args, std::vector<Problem>& problems) {
  for (const Flag& flag : kFlags) {
    const bool of_host = flag.name == kNprocFlag.name || flag.name == kSetFlag.name;
    if (of_host || is_one_of(kShared, flag.name) || !args.has(flag.name)) continue;
    const bool has_run = !args.words().empty() || args.has(kSetFlag.name);
    if (flag.name == "--search" && has_run) continue;  // of ranks of this host
    problems.push_back({"LS-1020", std::string(flag.name),
                        "is of a plan for named devices, and none are named",
                        "add --model NAME or --params 7e9, and --gpus N --gpu A100-80G; a run on "
                        "this host takes --set"});
  }
}

void check_needs(const Args& args, std::vector<Problem>& problems) {
  const bool from_file = !args.words().empty() || args.has(kSetFlag.name);
  if (!args.has("--model") && !args.has("--params") && !from_file) {
    problems.push_back({"LS-1013", "--model", "is missing: devices alone are no plan",
                        "add --model NAME, --model config.json, --params 7e9 or RUN.toml"});
  }
  if (args.has("--check") && !args.has("--gpu") && !args.has("--cluster")) {
    problems.push_back({"LS-1013", "--check", "asks whether it fits, but into which device?",
                        "add --gpu A100-80G or --cluster 8xA100-80G"});
  }
  const bool rule = args.has("--deepspeed") && args.has("--states-only");
  if (args.has("--largest-layer") && !rule) {
    problems.push_back({"LS-1020", "--largest-layer", "is read by DeepSpeed's own estimators alone",
                        "add --deepspeed FILE --states-only, or drop it"});
  }
  for (const std::string_view flag : {"--read-rate", "--sample-bytes", "--data-bytes"}) {
    if (!args.has(flag) || parse_bytes(args.text(flag)).value_or(0) > 0) continue;
    problems.push_back({"LS-1013", std::string(flag), "cannot be " + args.text(flag).substr(0, 64),
                        "use a number of bytes above 0, such as 150kB or 2GB"});
  }
  for (const std::string_view flag : {"--params", "--largest-layer", "--tokens", "--samples"}) {
    if (!args.has(flag) || read_parameters(args.text(flag))) continue;
    problems.push_back({"LS-1013", std::string(flag), "cannot be " + args.text(flag).substr(0, 64),
                        "use a number above 0 and up to 1e24, such as 7e9 or 7B"});
  }
}

/// What a letter behind a number stands for; 0 = nothing.
double unit_of(char letter) {
  switch (letter) {
    case 'k':
    case 'K':
      return 1e3;
    case 'm':
    case 'M':
      return 1e6;
    case 'b':
    case 'B':
    case 'g':
    case 'G':
      return 1e9;
    case 't':
    case 'T':
      return 1e12;
    default:
      return 0;
  }
}

struct KeyOfFlag {
  std::string_view key;
  std::string_view flag;
};

constexpr auto kKeys = std::to_array<KeyOfFlag>({
    {"batch.micro_batch", "--micro-batch"},
    {"batch.global_batch", "--global-batch"},
    {"batch.accumulation", "--accumulation"},
    {"data.seq_len", "--seq-len"},
    {"precision.compute", "--precision"},
    {"parallel.data", "--data"},
    {"parallel.zero", "--zero"},
    {"parallel.tensor", "--tensor"},
    {"parallel.pipeline", "--pipeline"},
    {"parallel.schedule", "--schedule"},
    {"memory.activation_checkpointing", "--recompute"},
    {"memory.offload_optimizer", "--offload-optimizer"},
    {"memory.offload_params", "--offload-parameters"},
});

std::string keys_of_flags() {
  std::string text;
  for (const KeyOfFlag& row : kKeys) text += (text.empty() ? "" : ", ") + std::string(row.key);
  return text;
}

/// One --set as the flag for its key; the parser checks it as it checks the flag.
void add_set(const std::string& set, std::vector<std::string>& words,
             std::vector<Problem>& problems) {
  const std::size_t equals = std::min(set.find('='), set.size());
  const std::string key = set.substr(0, equals);
  const auto* row = std::find_if(kKeys.begin(), kKeys.end(),
                                 [&](const KeyOfFlag& one) { return one.key == key; });
  if (row == kKeys.end() || equals == set.size()) {
    problems.push_back({"LS-1020", "--set " + key.substr(0, 64),
                        "is of a RUN.toml, and the model is named",
                        "use one of " + keys_of_flags() + ", or RUN.toml instead of the name"});
    return;
  }
  words.push_back(std::string(row->flag) + "=" + set.substr(equals + 1));
}

}  // namespace

SetArgs with_sets_as_flags(const Args& args) {
  if (!args.has(kSetFlag.name) || (!args.has("--model") && !args.has("--params")))
    return {args, {}};
  const Command& plan = *find_command("plan");
  SetArgs result;
  std::vector<std::string> words = words_of(plan, args, std::array{kSetFlag.name});
  for (const std::string& set : args.all(kSetFlag.name)) add_set(set, words, result.problems);
  ParsedArgs parsed = parse_args(plan, words);
  result.args = std::move(parsed.args);
  result.problems.insert(result.problems.end(), parsed.problems.begin(), parsed.problems.end());
  return result;
}

std::span<const Flag> plan_flags() { return kFlags; }

bool asks_for_cluster(const Args& args) { return !first_anchor(args).empty(); }

std::vector<Problem> check_plan_flags(const Args& given, const Context& /*context*/) {
  std::vector<Problem> problems;
  if (!asks_for_cluster(given)) {
    check_details(given, problems);
    for (const std::string_view flag : {std::string_view("--states-only"), kNprocFlag.name}) {
      if (!given.has("--search") || !given.has(flag)) continue;
      contradict(flag, "--search", "the search looks at times of every number of ranks", problems);
    }
    return problems;
  }
  SetArgs set = with_sets_as_flags(given);
  problems = std::move(set.problems);
  const Args& args = set.args;
  check_of_this_host(args, problems);
  for (const Pair& pair : kContradictions) {
    if (args.has(pair.one) && args.has(pair.other)) {
      contradict(pair.one, pair.other, pair.why, problems);
    }
  }
  check_needs(args, problems);
  check_questions(args, problems);
  return problems;
}

std::optional<double> read_parameters(std::string_view text) {
  double unit = 1;
  if (!text.empty() && unit_of(text.back()) > 0) {
    unit = unit_of(text.back());
    text.remove_suffix(1);
  }
  double number = 0;
  constexpr double kMost = 1e24;  // more than anybody trains on, and a time of it can be printed
  if (!config::read_number(text, number) || !(number > 0)) return std::nullopt;
  return number * unit <= kMost ? std::optional(number * unit) : std::nullopt;
}

}  // namespace lockstep::cli
