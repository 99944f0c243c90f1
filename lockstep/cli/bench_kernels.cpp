// lockstep bench kernels: how fast this machine computes what the worker is made of.
#include <algorithm>
#include <array>
#include <ostream>
#include <string_view>

#include "lockstep/base/nearest.h"
#include "lockstep/base/run_dir.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/kernel_run.h"
#include "lockstep/cli/scaling_plan.h"
#include "lockstep/metrics/canvas.h"
#include "lockstep/metrics/events_file.h"

namespace lockstep::cli {
namespace {

using config::Dtype;
using metrics::pad_left;
using metrics::pad_right;

constexpr auto kTypes = std::to_array<std::string_view>({"fp32", "bf16", "fp16"});

constexpr std::array kFlags{
    Flag{.name = "--ranks", .value = "N,N,...", .help = "ranks that compute at once; default 1"},
    Flag{.name = "--op",
         .value = "NAME,...",
         .help = "operators to time, point by point; default all, in short",
         .repeats = true,
         .offers =
             "linear|convolution_3x3|attention|layer_norm|batch_norm|loss|gelu|adamw|step|gpt_step|"
             "resnet_step"},
    Flag{.name = "--dtype",
         .value = "NAME,...",
         .help = "fp32, bf16, fp16; default all",
         .repeats = true,
         .offers = "fp32|bf16|fp16"},
    Flag{.name = "--seconds",
         .value = "S",
         .help = "time for each point; default 0.02",
         .type = ValueType::number,
         .minimum = 0,
         .maximum = 60},
    Flag{.name = "--out", .value = "DIR", .help = "folder for results; default a new one in runs/"},
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep bench kernels", "the best rate of every operator of the worker, in every type"},
    {"lockstep bench kernels --op linear --dtype bf16 --ranks 1,2",
     "matrix products in bf16 at every size, alone and with both cores busy"},
});

struct KernelPlan {
  KernelRequest request;
  std::vector<int> ranks;
};

std::vector<std::string> words_of(const Args& args, const char* flag) {
  std::vector<std::string> words;
  for (const std::string& list : args.all(flag)) {
    std::size_t from = 0;
    for (std::size_t comma = 0; comma != std::string::npos; from = comma + 1) {
      comma = list.find(',', from);
      words.push_back(list.substr(from, comma - from));
    }
  }
  return words;
}

void refuse(std::vector<Problem>& problems, const char* flag, const std::string& word,
            std::span<const std::string_view> names) {
  std::string all;
  for (const std::string_view name : names) all += (all.empty() ? "" : ", ") + std::string(name);
  problems.push_back({"LS-1013", flag, "cannot be " + (word.empty() ? "empty" : word.substr(0, 64)),
                      did_you_mean(word, names, "use " + all)});
}

KernelPlan read_plan(const Args& args) {
  KernelPlan plan;
  std::vector<Problem> problems;
  std::vector<std::string_view> names;
  for (const KernelInfo& info : lockstep::kernels()) names.push_back(info.name);
  for (const std::string& word : words_of(args, "--op")) {
    const auto kernel = find_kernel(word);
    kernel ? plan.request.kernels.push_back(*kernel) : refuse(problems, "--op", word, names);
  }
  for (const std::string& word : words_of(args, "--dtype")) {
    const auto found = std::find(kTypes.begin(), kTypes.end(), word);
    if (found == kTypes.end()) {
      refuse(problems, "--dtype", word, kTypes);
    } else {
      plan.request.types.push_back(static_cast<Dtype>(found - kTypes.begin()));
    }
  }
  if (!args.has("--op")) plan.request.kernels = all_kernels();
  if (!args.has("--dtype")) plan.request.types = {Dtype::fp32, Dtype::bf16, Dtype::fp16};
  if (const auto seconds = args.number("--seconds")) plan.request.seconds_a_point = *seconds;
  try {
    plan.ranks = parse_rank_counts(args.text("--ranks", "1"));
  } catch (const UsageError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
  return plan;
}

std::string json_line(const KernelPoint& point, int ranks) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(lockstep::to_json_text(point));
  json["ranks"] = ranks;
  json[lockstep::info_of(point.kernel).multiplies ? "gflops" : "gbs"] = rate_of(point);
  return json.dump() + "\n";
}

std::string time_text(double seconds) { return seconds > 0 ? format_duration(seconds) : "-"; }

std::string rate_text(const KernelPoint& point) {
  const bool multiplies = lockstep::info_of(point.kernel).multiplies;
  return format_number(rate_of(point), 3) + (multiplies ? " GFLOP/s" : " GB/s");
}

std::string size_text(const KernelPoint& point) {
  std::string text = format_count(static_cast<std::int64_t>(point.size[0]));
  for (std::size_t i = 1; i < point.size.size(); ++i) {
    if (point.size[i] > 1) text += " x " + format_count(static_cast<std::int64_t>(point.size[i]));
  }
  return text;
}

/// Points of one kernel in one type.
std::vector<std::vector<KernelPoint>> groups_of(const std::vector<KernelPoint>& points) {
  std::vector<std::vector<KernelPoint>> groups;
  for (const KernelPoint& point : points) {
    if (groups.empty() || groups.back().front().kernel != point.kernel ||
        groups.back().front().type != point.type) {
      groups.emplace_back();
    }
    groups.back().push_back(point);
  }
  return groups;
}

std::string name_of(const KernelPoint& point) {
  return std::string(lockstep::info_of(point.kernel).name) + " " +
         std::string(kTypes.at(static_cast<std::size_t>(point.type)));
}

/// Every point of the operators that were asked for.
std::string all_points(const std::vector<KernelPoint>& points) {
  std::string text;
  for (const auto& group : groups_of(points)) {
    text += "\n" + name_of(group.front()) + ": " +
            std::string(lockstep::info_of(group.front().kernel).sizes) + "\n" +
            pad_left("size", 22) + pad_left("forward", 11) + pad_left("backward", 11) +
            pad_left("rate", 16) + "\n";
    for (const KernelPoint& point : group) {
      text += pad_left(size_text(point), 22) + pad_left(time_text(point.forward_s), 11) +
              pad_left(time_text(point.backward_s), 11) + pad_left(rate_text(point), 16) + "\n";
    }
  }
  return text;
}

/// A line for each operator and type: its best rate, and what its smallest size takes.
std::string best_points(const std::vector<KernelPoint>& points) {
  std::string text = "\n" + pad_right("operator", 22) + pad_left("best rate", 16) +
                     pad_left("at size", 22) + pad_left("forward", 11) + pad_left("backward", 11) +
                     pad_left("at least", 11) + "\n";
  for (const auto& group : groups_of(points)) {
    const KernelPoint best =
        *std::max_element(group.begin(), group.end(),
                          [](const auto& a, const auto& b) { return rate_of(a) < rate_of(b); });
    const KernelPoint least =
        *std::min_element(group.begin(), group.end(),
                          [](const auto& a, const auto& b) { return a.forward_s < b.forward_s; });
    text += pad_right(name_of(best), 22) + pad_left(rate_text(best), 16) +
            pad_left(size_text(best), 22) + pad_left(time_text(best.forward_s), 11) +
            pad_left(time_text(best.backward_s), 11) + pad_left(time_text(least.forward_s), 11) +
            "\n";
  }
  return text;
}

Exit run(const Args& args, const Context& context) {
  const KernelPlan plan = read_plan(args);
  const std::string out_dir = make_run_dir(args.text("--out"), "kernels");
  std::string lines;
  for (const int ranks : plan.ranks) {
    if (!context.quiet && !context.json) {
      context.out << "timing operators on " << counted(ranks, "rank") << " ..." << std::endl;
    }
    const auto points =
        time_kernels(context, plan.request, ranks, out_dir + "/ranks-" + std::to_string(ranks),
                     [&](const KernelPoint& point) {
                       const std::string line = json_line(point, ranks);
                       lines += line;
                       if (context.json) context.out << line << std::flush;
                     });
    metrics::write_whole_file(out_dir + "/kernels.jsonl", lines);
    if (context.json) continue;
    context.out << (args.has("--op") ? all_points(points) : best_points(points)) << std::flush;
  }
  if (!context.json) context.out << "\n  " << out_dir << "/kernels.jsonl" << std::endl;
  return Exit::ok;
}

}  // namespace

Command bench_kernels_command() {
  return {.name = "bench kernels",
          .summary = "how fast this machine computes what the worker is made of",
          .description =
              "Times the operators of the worker itself, forward and backward, on one thread of "
              "each rank, over a grid of sizes: products and convolutions, attention, norms, "
              "losses, pointwise functions, optimizers, and a step that has nothing to compute. "
              "Several copies take turns, as layers do. With several ranks all compute the same "
              "at once, so they share caches and memory as in a training. GFLOP/s and GB/s are of "
              "forward; backward is both gradients.",
          .examples = kExamples,
          .flags = kFlags,
          .json =
              "a line for each operator, type and size: kernel, dtype, m, n, k (sizes), "
              "forward_us, backward_us, backward_first_us (the input needs no gradient), "
              "ranks, gflops or gbs.",
          .run = run};
}

}  // namespace lockstep::cli
