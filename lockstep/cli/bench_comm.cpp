// lockstep bench comm: collectives between the ranks of this host, alone or beside another stack.
#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <ostream>
#include <string_view>

#include "lockstep/base/run_dir.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/comm_plan.h"
#include "lockstep/cli/comm_text.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/mpi_peer.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/comm/bench/regime.h"
#include "lockstep/comm/bench/rows.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr Flag count_flag(std::string_view name, std::string_view help, double minimum) {
  return {.name = name,
          .value = "N",
          .help = help,
          .type = ValueType::integer,
          .minimum = minimum,
          .maximum = 1e6};
}

constexpr std::array kFlags{
    Flag{.name = "--ranks", .value = "N,N,...", .help = "rank counts to time; default 2"},
    Flag{.name = "--op",
         .value = "NAME,...",
         .help = "all_reduce, reduce_scatter, all_gather, broadcast, barrier; default all_reduce",
         .repeats = true,
         .offers = "all_reduce|reduce_scatter|all_gather|broadcast|barrier"},
    Flag{.name = "--backend",
         .value = "NAME",
         .help =
             "shm, gloo, shm+gloo (halves of the ranks as two hosts) or nccl (GPUs); default shm",
         .offers = "shm|gloo|shm+gloo|nccl"},
    Flag{.name = "--sizes",
         .value = "BYTES,...",
         .help = "of the full fp32 buffer; default 4,1Ki,16Ki,256Ki,4Mi,16Mi,64Mi"},
    Flag{.name = "--against",
         .value = "NAME",
         .help = "gloo or mpi: also time this side, round by round in turn",
         .offers = "gloo|mpi"},
    count_flag("--rounds", "times that each side is timed; default 5", 1),
    count_flag("--iterations", "samples a size and round; default 30", 1),
    count_flag("--warmup", "calls before them, not timed; default 10", 0),
    Flag{.name = "--symmetric",
         .help = "all_reduce where it lies, in memory that all ranks reach, as gradients do"},
    Flag{.name = "--no-pin", .help = "leave the ranks to the scheduler"},
    Flag{.name = "--out", .value = "DIR", .help = "folder for results; default a new one in runs/"},
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep bench comm", "all_reduce of 2 ranks, from 4 bytes to 64 MiB"},
    {"lockstep bench comm --ranks 2,4 --op all_reduce,all_gather --against mpi",
     "beside Open MPI, round by round"},
    {"lockstep bench comm --sizes 4,256Ki,64Mi --against gloo --json",
     "a JSON line a size and side"},
});

/// Rows of each collective, in order.
std::vector<std::vector<bench::Row>> by_collective(const std::vector<bench::Row>& rows) {
  std::vector<std::vector<bench::Row>> groups;
  for (const bench::Row& row : rows) {
    if (groups.empty() || groups.back().front().op != row.op) groups.emplace_back();
    groups.back().push_back(row);
  }
  return groups;
}

/// One call: times each rank count in turn and prints it.
class CommBench {
 public:
  CommBench(const Args& args, const Context& context)
      : context_(context), plan_(comm_plan(args)), host_(probe_host()) {
    if (plan_.against_mpi) mpi_ = find_mpi_peer(context);
    worker_ = find_worker(context);
    out_dir_ = make_run_dir(args.text("--out"), "comm");
  }

  Exit run() {
    for (const int ranks : plan_.ranks) {
      measured_ = {ranks, plan_.request.backend, plan_.against(), ranks > host_.cores, {}, {}};
      measured_.symmetric = plan_.request.symmetric;
      measure();
      const bench::Rows rows = bench::rows_of(measured_);
      keep(rows);
      print(rows);
    }
    return Exit::ok;
  }

 private:
  /// A peer program runs between our rounds, so each of those is a job of its own.
  void measure() {
    bench::Request request = plan_.request;
    request.pin = !plan_.no_pin && !measured_.crowded;
    if (!mpi_) return run_ours(request);
    request.rounds = 1;
    for (int round = 1; round <= plan_.request.rounds; ++round) {
      request.first_round = round;
      run_ours(request);
      run_mpi(request);
    }
  }

  void run_ours(const bench::Request& request) {
    const fs::path dir = dir_of(request);
    (void)make_run_dir(dir.string(), "");
    metrics::write_whole_file(dir / "request.json", bench::to_json_text(request) + "\n");
    launch::LocalJobOptions options;
    options.command = {worker_, "bench-comm", "--job", (dir / "request.json").string(), "--json"};
    options.nproc_per_node = measured_.ranks;
    options.log_dir = (dir / "logs").string();
    options.on_report = [&](const std::string& line) { take(line); };
    const auto rounds = static_cast<std::size_t>(request.rounds) * (mpi_ ? 1 : sides());
    run_job(options, rounds * samples_a_round(request), options.log_dir);
  }

  void run_mpi(const bench::Request& request) {
    show({true, request.first_round, bench::probe_us(bench::allowed_cores())});
    std::string printed;  // all that is no report
    launch::LocalJobOptions options;
    options.command = mpi_command(*mpi_, request, measured_.ranks);
    options.ours = false;
    options.on_output = [&](const launch::OutputLine& line) {
      if (!line.is_stderr && line.text.starts_with("{")) return take(line.text);
      printed += line.text + "\n";
    };
    const fs::path log = dir_of(request) / "mpirun.log";
    metrics::write_whole_file(log, printed);  // a failure names it
    try {
      run_job(options, samples_a_round(request), log.string());
    } catch (const Error&) {
      metrics::write_whole_file(log, printed);
      throw;
    }
  }

  /// \param log where a reader finds what the ranks printed.
  void run_job(const launch::LocalJobOptions& options, std::size_t samples,
               const std::string& log) {
    const std::size_t before = measured_.samples.size();
    const launch::LocalJobResult result = launch::run_local_job(options);
    const bool is_complete = measured_.samples.size() == before + samples;
    if (result.exit == Exit::ok && is_complete) return;
    fail_bench(counted(measured_.ranks, "rank"), result, log);
  }

  void take(const std::string& line) {
    const bench::Report report = bench::read_report(line);
    if (const auto* sample = std::get_if<bench::Sample>(&report)) {
      measured_.samples.push_back(*sample);
      return;
    }
    show(std::get<bench::Probe>(report));
  }

  void show(const bench::Probe& probe) {
    measured_.probes.push_back(probe);
    const std::string& side = probe.is_theirs ? measured_.against : measured_.backend;
    metrics::Console(context_.json ? context_.err : context_.out, console_options(context_))
        .note(counted(measured_.ranks, "rank") + ", round " + std::to_string(probe.round) + " of " +
              std::to_string(plan_.request.rounds) + ", " + side + ", " +
              regime_text(probe.handover_us));
  }

  [[nodiscard]] std::size_t sides() const { return plan_.against().empty() ? 1 : 2; }

  [[nodiscard]] fs::path dir_of(const bench::Request& request) const {
    const fs::path dir = out_dir_ / ("ranks-" + std::to_string(measured_.ranks));
    return mpi_ ? dir / ("round-" + std::to_string(request.first_round)) : dir;
  }

  /// Both sides of a size beside each other.
  void keep(const bench::Rows& rows) {
    for (std::size_t i = 0; i < rows.ours.size(); ++i) {
      lines_ += bench::to_json_text(rows.ours[i]) + "\n";
      if (!rows.theirs.empty()) lines_ += bench::to_json_text(rows.theirs[i]) + "\n";
    }
    metrics::write_whole_file(out_dir_ / "comm.jsonl", lines_);
  }

  void print(const bench::Rows& rows) {
    if (context_.json) {
      context_.out << lines_.substr(printed_) << std::flush;
      printed_ = lines_.size();
      return;
    }
    const metrics::ConsoleOptions options = console_options(context_);
    for (const auto& group : by_collective(rows.ours)) {
      context_.out << "\n" << comm_table(group, options.style);
      const std::string plot = comm_plot(group, options.width, options.style);
      if (!options.quiet && !plot.empty()) context_.out << "\n" << plot;
    }
    context_.out << "\n  " << (out_dir_ / "comm.jsonl").string() << std::endl;
  }

  const Context& context_;
  CommPlan plan_;
  Host host_;
  std::optional<MpiPeer> mpi_;
  std::string worker_;
  fs::path out_dir_;
  bench::Measured measured_;  // of the rank count being timed
  std::string lines_;         // JSON of all rows so far
  std::size_t printed_ = 0;   // of them
};

Exit run(const Args& args, const Context& context) { return CommBench(args, context).run(); }

}  // namespace

Command bench_comm_command() {
  return {
      .name = "bench comm",
      .summary = "time and bandwidth of collectives between the ranks of this host",
      .description =
          "Times fp32 collectives on each rank count, alone or in turn with another stack, and "
          "prints a table, a plot and the ratio (ours / theirs, median of the rounds' ratios). A "
          "sample begins with a barrier and is rank 0's time from issuing to the end of the wait; "
          "slowest_us is that of the slowest rank. Min and max are of all samples, the median is "
          "that of the rounds' medians. Bytes are those of the full buffer, rounded up to whole "
          "elements for each rank. GB/s is bytes / time (1 GB = 1e9); bus GB/s multiplies it as "
          "nccl-tests does, for n ranks: all_reduce 2(n-1)/n, reduce_scatter and all_gather "
          "(n-1)/n, broadcast 1. Ranks are kept one to a core unless there are more of them "
          "(crowded). Each side of a round begins by timing how fast a core hands 256 KiB to "
          "another: above 60 us "
          "the machine is in its far regime, else in its near one, and only rounds of one regime "
          "compare. --against mpi needs Open MPI.",
      .examples = kExamples,
      .flags = kFlags,
      .json =
          "a line for each op and size, ours and those of --against: op, backend, ranks, bytes, "
          "time_us (min, median, max), algbw_gbs, busbw_gbs, and how it was measured.",
      .run = run};
}

}  // namespace lockstep::cli
