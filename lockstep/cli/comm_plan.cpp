#include "lockstep/cli/comm_plan.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/nearest.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/scaling_plan.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kDefaultSizes = "4,1Ki,16Ki,256Ki,4Mi,16Mi,64Mi";
constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
constexpr auto kBackends = std::to_array<std::string_view>({"shm", "gloo", "shm+gloo", "nccl"});
constexpr int kFewestOnHosts =
    3;  // with two ranks each host has one, and there is nothing to share
constexpr auto kPeers = std::to_array<std::string_view>({"gloo", "mpi"});

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  std::size_t from = 0;
  for (std::size_t comma = 0; comma != std::string::npos; from = comma + 1) {
    comma = text.find(',', from);
    words.push_back(text.substr(from, comma - from));
  }
  return words;
}

std::string list_of(std::span<const std::string_view> names) {
  std::string text;
  for (const auto name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

void refuse(std::vector<Problem>& problems, const char* flag, const std::string& what,
            std::string fix) {
  problems.push_back({"LS-1013", flag, what, std::move(fix)});
}

void refuse_word(std::vector<Problem>& problems, const char* flag, const std::string& word,
                 std::span<const std::string_view> names) {
  refuse(problems, flag, "cannot be " + (word.empty() ? "empty" : word.substr(0, 64)),
         did_you_mean(word, names, "use " + list_of(names)));
}

std::string word_of(const Args& args, const char* flag, std::string_view otherwise,
                    std::span<const std::string_view> names, std::vector<Problem>& problems) {
  const std::string word = args.text(flag, otherwise);
  const bool is_known = std::find(names.begin(), names.end(), word) != names.end();
  if (!is_known && args.has(flag)) refuse_word(problems, flag, word, names);
  return word;
}

std::vector<bench::Collective> parse_ops(const Args& args, std::vector<Problem>& problems) {
  std::vector<bench::Collective> ops;
  for (const std::string& list : args.all("--op")) {
    for (const std::string& word : split(list)) {
      const auto op = bench::find_collective(word);
      if (!op) {
        refuse_word(problems, "--op", word, bench::collective_names());
      } else if (std::find(ops.begin(), ops.end(), *op) == ops.end()) {
        ops.push_back(*op);
      }
    }
  }
  if (!args.has("--op")) ops.push_back(bench::Collective::all_reduce);
  return ops;
}

std::vector<int> parse_ranks(const Args& args, std::vector<Problem>& problems) {
  try {
    return parse_rank_counts(args.text("--ranks", "2"));
  } catch (const UsageError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
    return {};
  }
}

int count_of(const Args& args, const char* flag, int otherwise) {
  return static_cast<int>(args.integer(flag).value_or(otherwise));
}

}  // namespace

std::vector<std::int64_t> parse_sizes(const std::string& text, std::vector<Problem>& problems) {
  std::vector<std::int64_t> sizes;
  for (const std::string& word : split(text)) {
    const auto bytes = parse_bytes(word.ends_with('i') ? word + "B" : word);
    if (bytes && *bytes >= 1 && *bytes <= kMostBytes) {
      sizes.push_back(*bytes);
    } else {
      refuse(problems, "--sizes",
             "'" + word.substr(0, 64) + "' is no size from 1 byte to " + "1 TiB",
             "give bytes, as in --sizes 4,1Ki,64Mi");
    }
  }
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

CommPlan comm_plan(const Args& args) {
  CommPlan plan;
  std::vector<Problem> problems;
  plan.ranks = parse_ranks(args, problems);
  plan.request.backend = word_of(args, "--backend", kBackends.front(), kBackends, problems);
  for (const int ranks : plan.ranks) {
    if (plan.request.backend != "shm+gloo" || ranks >= kFewestOnHosts) continue;
    refuse(problems, "--ranks",
           std::to_string(ranks) + " cannot be two hosts of which one has several ranks",
           "use --ranks 4 with --backend shm+gloo");
  }
  plan.request.against = word_of(args, "--against", "", kPeers, problems);
  plan.request.ops = parse_ops(args, problems);
  plan.request.bytes = parse_sizes(args.text("--sizes", kDefaultSizes), problems);
  plan.request.iterations = count_of(args, "--iterations", plan.request.iterations);
  plan.request.warmup = count_of(args, "--warmup", plan.request.warmup);
  plan.request.rounds = count_of(args, "--rounds", plan.request.rounds);
  plan.no_pin = args.has("--no-pin");
  plan.request.symmetric = args.has("--symmetric");
  const auto is_other = [](bench::Collective op) { return op != bench::Collective::all_reduce; };
  if (plan.request.symmetric &&
      std::any_of(plan.request.ops.begin(), plan.request.ops.end(), is_other)) {
    refuse(problems, "--symmetric", "is for all_reduce alone", "leave --op away");
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
  plan.against_mpi = plan.request.against == "mpi";
  if (plan.against_mpi) plan.request.against.clear();
  return plan;
}

std::size_t samples_a_round(const bench::Request& request) {
  std::size_t count = 0;
  for (const bench::Collective op : request.ops) count += bench::sizes_of(request, op).size();
  return count;
}

}  // namespace lockstep::cli
