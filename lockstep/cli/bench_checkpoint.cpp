// lockstep bench checkpoint: how fast a state goes to a disk and back, beside what the disk gives.
#include <array>
#include <filesystem>
#include <ostream>
#include <system_error>

#include "lockstep/base/run_dir.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/bench/rows.h"
#include "lockstep/cli/comm_plan.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/scaling_plan.h"
#include "lockstep/cli/torch_peer.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/metrics/text_style.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using checkpoint::BenchPart;
using checkpoint::BenchRow;
using metrics::pad_left;
using metrics::pad_right;

constexpr std::int64_t kDefaultBytes = std::int64_t{1} << 30;
constexpr double kFilesAtOnce = 3;  // of the state's size: two saves and the disk's own file

constexpr std::array kFlags{
    Flag{.name = "--ranks", .value = "N,N,...", .help = "rank counts to time; default 2"},
    Flag{.name = "--sizes",
         .value = "BYTES,...",
         .help = "of the state of all ranks together; default 1Gi"},
    Flag{.name = "--dir",
         .value = "DIR",
         .help = "a folder on the disk in question, emptied again; default that of the results"},
    Flag{.name = "--against",
         .value = "NAME",
         .help = "torch: also time torch.distributed.checkpoint, round by round in turn",
         .offers = "torch"},
    Flag{.name = "--rounds",
         .value = "N",
         .help = "times that each side is timed; default 3",
         .type = ValueType::integer,
         .minimum = 1,
         .maximum = 1000},
    Flag{.name = "--out", .value = "DIR", .help = "folder for results; default a new one in runs/"},
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep bench checkpoint", "1 GiB of state of 2 ranks, to this disk and back"},
    {"lockstep bench checkpoint --dir /mnt/shared/tmp --ranks 1,4 --sizes 256Mi",
     "to a shared disk"},
    {"lockstep bench checkpoint --against torch", "beside PyTorch's distributed checkpoints"},
});

struct CheckpointPlan {
  std::vector<int> ranks;
  std::vector<std::int64_t> sizes;
  int rounds = 3;
  bool against_torch = false;
};

CheckpointPlan read_plan(const Args& args) {
  CheckpointPlan plan;
  std::vector<Problem> problems;
  plan.sizes = args.has("--sizes") ? parse_sizes(args.text("--sizes"), problems)
                                   : std::vector<std::int64_t>{kDefaultBytes};
  plan.rounds = static_cast<int>(args.integer("--rounds").value_or(plan.rounds));
  plan.against_torch = args.has("--against");
  if (plan.against_torch && args.text("--against") != "torch") {
    problems.push_back(
        {"LS-1013", "--against", "cannot be " + args.text("--against").substr(0, 64), "use torch"});
  }
  std::error_code unknown;
  if (args.has("--dir") && !fs::is_directory(args.text("--dir"), unknown)) {
    problems.push_back({"LS-1001", "--dir " + args.text("--dir").substr(0, 200),
                        "is no folder that is there",
                        "name one on the disk in question; nothing is left in it"});
  }
  try {
    plan.ranks = parse_rank_counts(args.text("--ranks", "2"));
  } catch (const UsageError& error) {
    problems.insert(problems.end(), error.problems().begin(), error.problems().end());
  }
  if (!problems.empty()) throw UsageError(std::move(problems));
  return plan;
}

/// A folder of this benchmark alone; it goes with all that is in it.
class Scratch {
 public:
  explicit Scratch(const fs::path& parent) : path_(make_run_dir((parent / "files").string(), "")) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;  // leftovers of a benchmark; a destructor cannot throw
    fs::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Before minutes of writing. \throws EnvironmentFault (LS-5001).
void require_space(const std::string& dir, std::int64_t bytes) {
  std::error_code unknown;
  const auto space = fs::space(dir, unknown);
  const double need = kFilesAtOnce * static_cast<double>(bytes);
  if (unknown || static_cast<double>(space.available) >= need) return;
  throw EnvironmentFault({"LS-5001", dir,
                          "no room for the benchmark: it needs " + format_bytes(need) +
                              ", free are " + format_bytes(static_cast<double>(space.available)),
                          "lower --sizes, or name another disk with --dir"});
}

std::string percent(double share) { return format_number(100 * share, 3) + " %"; }

std::string remark_of(const BenchRow& row) {
  std::string text;
  if (row.share_of_disk > 0) text = percent(row.share_of_disk) + " of the disk's rate";
  if (row.share_of_save > 0) text = percent(row.share_of_save) + " of a save";
  if (row.times_as_fast > 0) {
    text += (text.empty() ? "" : ", ") + format_number(row.times_as_fast, 3) + "x theirs";
  }
  return text;
}

std::string table_of(const std::vector<BenchRow>& rows) {
  std::string text = "\n" +
                     pad_right(counted(rows.front().ranks, "rank") + ", " +
                                   format_bytes(static_cast<double>(rows.front().bytes)),
                               26) +
                     pad_left("min", 10) + pad_left("median", 10) + pad_left("max", 10) +
                     pad_left("rate", 12) + "\n";
  for (const BenchRow& row : rows) {
    const std::string who = row.backend == "lockstep" ? "" : " (" + row.backend + ")";
    const bool is_stall = row.part == BenchPart::async_stall;
    const std::string rate = is_stall ? "-" : format_number(row.gb_per_s, 3) + " GB/s";
    text += pad_right(std::string(checkpoint::name_of(row.part)) + who, 26) +
            pad_left(format_duration(row.min_s), 10) + pad_left(format_duration(row.median_s), 10) +
            pad_left(format_duration(row.max_s), 10) + pad_left(rate, 12);
    const std::string remark = remark_of(row);
    text += (remark.empty() ? "" : "   " + remark) + "\n";
  }
  return text;
}

/// One call: times each rank count and size in turn and prints it.
class CheckpointBench {
 public:
  CheckpointBench(const Args& args, const Context& context)
      : context_(context),
        plan_(read_plan(args)),
        worker_(find_worker(context)),
        python_(plan_.against_torch ? find_python(context) : ""),
        out_dir_(make_run_dir(args.text("--out"), "checkpoint")),
        scratch_(args.has("--dir") ? fs::path(args.text("--dir")) : out_dir_) {
    if (!python_.empty()) metrics::write_whole_file(out_dir_ / "peer_dcp.py", torch_script());
  }

  Exit run() {
    for (const int ranks : plan_.ranks) {
      for (const std::int64_t bytes : plan_.sizes) {
        require_space(scratch_.path(), bytes);
        ours_ = {"lockstep", {}};
        theirs_ = {"torch", {}};
        for (int round = 1; round <= plan_.rounds; ++round) time_round(ranks, bytes, round);
        print(checkpoint::bench_rows(ours_, theirs_, ranks, bytes));
      }
    }
    if (!context_.json)
      context_.out << "\n  " << (out_dir_ / "checkpoint.jsonl").string() << std::endl;
    return Exit::ok;
  }

 private:
  void time_round(int ranks, std::int64_t bytes, int round) {
    const checkpoint::BenchRequest request{scratch_.path(), bytes, 1, round};
    if (!context_.quiet) {
      (context_.json ? context_.err : context_.out)
          << counted(ranks, "rank") << ", " << format_bytes(static_cast<double>(bytes))
          << ", round " << round << " of " << plan_.rounds << " ..." << std::endl;
    }
    run_ours(ranks, request);
    if (!python_.empty()) run_torch(ranks, request);
  }

  void run_ours(int ranks, const checkpoint::BenchRequest& request) {
    const fs::path dir = dir_of(ranks, request);
    metrics::write_whole_file(dir / "request.json", checkpoint::to_json_text(request) + "\n");
    launch::LocalJobOptions options;
    options.command = {worker_, "bench-checkpoint", "--job", (dir / "request.json").string(),
                       "--json"};
    options.log_dir = (dir / "logs").string();
    options.on_report = [&](const std::string& line) {
      ours_.samples.push_back(checkpoint::bench_sample_from(line));
    };
    run_job(ranks, options, options.log_dir);
  }

  void run_torch(int ranks, const checkpoint::BenchRequest& request) {
    const fs::path log = dir_of(ranks, request) / "torch.log";
    std::string printed;                      // all that is no sample
    metrics::write_whole_file(log, printed);  // a failure names it
    launch::LocalJobOptions options;
    options.command = torch_command(python_, (out_dir_ / "peer_dcp.py").string(), request);
    options.ours = false;
    options.on_output = [&](const launch::OutputLine& line) {
      if (!line.is_stderr && line.text.starts_with("{")) {
        theirs_.samples.push_back(checkpoint::bench_sample_from(line.text));
      } else {
        printed += line.text + "\n";
      }
    };
    try {
      run_job(ranks, options, log.string());
    } catch (const Error&) {
      metrics::write_whole_file(log, printed);
      throw;
    }
  }

  static void run_job(int ranks, launch::LocalJobOptions& options, const std::string& log) {
    options.nproc_per_node = ranks;
    const launch::LocalJobResult result = launch::run_local_job(options);
    if (result.exit != Exit::ok) fail_bench(counted(ranks, "rank"), result, log);
  }

  [[nodiscard]] fs::path dir_of(int ranks, const checkpoint::BenchRequest& request) const {
    const fs::path dir = out_dir_ / ("ranks-" + std::to_string(ranks)) /
                         ("bytes-" + std::to_string(request.bytes)) /
                         ("round-" + std::to_string(request.first_round));
    return make_run_dir(dir.string(), "");
  }

  void print(const std::vector<BenchRow>& rows) {
    std::string lines;
    for (const BenchRow& row : rows) lines += checkpoint::to_json_text(row) + "\n";
    lines_ += lines;
    metrics::write_whole_file(out_dir_ / "checkpoint.jsonl", lines_);
    context_.out << (context_.json ? lines : table_of(rows)) << std::flush;
  }

  const Context& context_;
  const CheckpointPlan plan_;
  const std::string worker_;
  const std::string python_;  // empty = nobody to compare with
  const fs::path out_dir_;
  const Scratch scratch_;
  checkpoint::BenchSide ours_;  // of the ranks and size being timed
  checkpoint::BenchSide theirs_;
  std::string lines_;  // JSON of all rows so far
};

Exit run(const Args& args, const Context& context) { return CheckpointBench(args, context).run(); }

}  // namespace

Command bench_checkpoint_command() {
  return {
      .name = "bench checkpoint",
      .summary = "how fast a state is saved and loaded, beside what the disk gives",
      .description =
          "Times, on each rank count and size, in turn: writing the same bytes past the page cache "
          "(disk write), a save until it is flushed and has its final name, a load of files that "
          "are in the page cache with their checksums compared, and a save behind the training: "
          "how long a step waits for it (async stall) and when it is on the disk. A time is that "
          "of the slowest rank. GB/s is bytes / median (1 GB = 1e9). Shares and ratios are medians "
          "over the rounds. --against torch needs a python3 on PATH that has PyTorch.",
      .examples = kExamples,
      .flags = kFlags,
      .json =
          "a line for each part and side: part, backend, ranks, bytes, time_us (min, median, "
          "max), gbs; where it applies share_of_disk, share_of_save, times_as_fast.",
      .run = run};
}

}  // namespace lockstep::cli
