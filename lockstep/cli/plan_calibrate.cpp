#include "lockstep/cli/plan_calibrate.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <map>
#include <ostream>

#include "lockstep/base/clock.h"
#include "lockstep/base/run_dir.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/cli/kernel_run.h"
#include "lockstep/cli/worker_program.h"
#include "lockstep/comm/bench/request.h"
#include "lockstep/comm/bench/sample.h"
#include "lockstep/metrics/events_file.h"
#include "lockstep/topology/cluster.h"
#include "lockstep/topology/kernel_grid.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRanks = 8;
constexpr int kExchangeRounds = 3;
constexpr int kPasses = 2;
constexpr double kSecondsAPoint = 0.01;
constexpr double kShownEvery_s = 0.2;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  ::gmtime_r(&now, &day);
  char text[16];
  (void)std::strftime(text, sizeof text, "%Y-%m-%d", &day);
  return text;
}

/// One line that is written over on a terminal; elsewhere one line for each stage.
class Stage {
 public:
  Stage(const Context& context, std::string what, std::size_t points)
      : out_(context.json ? context.err : context.out),
        live_(context.out_is_terminal && !context.json && !context.quiet),
        what_(std::move(what)),
        points_(points) {
    if (!live_ && !context.quiet) out_ << "measuring " << what_ << " ..." << std::endl;
  }
  ~Stage() {
    if (live_)
      out_ << "\r\x1b[K" << what_ << ": " << format_duration(watch_.elapsed_s()) << std::endl;
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  void count(const std::string& now) {
    ++done_;
    if (!live_ || watch_.elapsed_s() - shown_s_ < kShownEvery_s) return;
    shown_s_ = watch_.elapsed_s();
    const double left = shown_s_ / static_cast<double>(done_) *
                        static_cast<double>(points_ > done_ ? points_ - done_ : 0);
    out_ << "\r\x1b[K" << what_ << ": " << done_ << " of " << points_ << ", " << now << ", "
         << format_duration(left) << " left" << std::flush;
  }

 private:
  std::ostream& out_;
  bool live_;
  std::string what_;
  std::size_t points_;
  std::size_t done_ = 0;
  double shown_s_ = 0;
  Stopwatch watch_;
};

class Calibration {
 public:
  explicit Calibration(const Context& context)
      : context_(context), host_(probe_host()), dir_(make_run_dir("", "calibrate")) {
    const char* how = context.get_env ? context.get_env("LOCKSTEP_CALIBRATE") : nullptr;
    few_ = how != nullptr && std::string(how) == "few";
  }

  void run(bool prints) {
    const std::string file = rates_file(host_);
    if (file.empty()) {
      throw EnvironmentFault({"LS-6132", "plan --calibrate", "there is no folder to keep it in",
                              "set LOCKSTEP_CACHE or HOME"});
    }
    require_rates_file(file);
    rates_.source = "measured on this machine, " + today();
    rates_.cpu_model = host_.cpu_model;
    rates_.cores = host_.cores;
    time_operators(1, all_kernels());
    const int busy = std::min(host_.cores, kMostRanks);
    if (busy > 1) time_operators(busy, all_kernels());
    time_operators(2 * busy, {Kernel::step});  // ranks that take turns
    for (int ranks = 2; ranks <= std::min(std::max(4, host_.cores), kMostRanks); ranks *= 2) {
      time_exchange(ranks);
    }
    write_rates(file, rates_);
    if (context_.json) {
      if (prints) context_.out << to_json_text(rates_) << std::endl;
    } else if (!context_.quiet) {
      context_.out << "kept in " << file << ": plans of runs on this machine go by it" << std::endl;
    }
  }

 private:
  void time_operators(int ranks, const std::vector<Kernel>& kernels) {
    const KernelRequest request{kernels,
                                {config::Dtype::fp32, config::Dtype::bf16, config::Dtype::fp16},
                                few_ ? 0 : kSecondsAPoint,
                                few_};
    const bool all = kernels.size() > 1;
    Stage stage(context_, (all ? "operators on " : "empty steps on ") + counted(ranks, "rank"),
                kPasses * points_to_time(request).size());
    std::vector<KernelPoint> points;
    for (int pass = 1; pass <= kPasses; ++pass) {
      const std::string name = "operators-" + std::to_string(pass);
      const auto again = time_kernels(
          context_, request, ranks, folder(name, ranks).string(),
          [&](const KernelPoint& point) { stage.count(std::string(info_of(point.kernel).name)); });
      keep_quicker(points, again);
    }
    rates_.busy.push_back({ranks, std::move(points)});
  }

  /// What else runs on the machine only makes times longer, and not in both passes.
  static void keep_quicker(std::vector<KernelPoint>& points,
                           const std::vector<KernelPoint>& again) {
    if (points.empty()) points = again;
    LOCKSTEP_CHECK(points.size() == again.size(), "two passes over different points");
    for (std::size_t i = 0; i < points.size(); ++i) {
      KernelPoint& kept = points[i];
      kept.forward_s = std::min(kept.forward_s, again[i].forward_s);
      kept.backward_s = std::min(kept.backward_s, again[i].backward_s);
      kept.backward_first_s = std::min(kept.backward_first_s, again[i].backward_first_s);
    }
  }

  void time_exchange(int ranks) {
    bench::Request request;
    request.backend = "shm";
    request.ops = {bench::Collective::all_reduce};
    const std::int64_t most = few_ ? 32 : std::int64_t{64} << 20;
    for (std::int64_t bytes = 4; bytes <= most; bytes *= 8) {
      request.bytes.push_back(bytes);
    }
    request.rounds = kExchangeRounds;
    request.symmetric = true;
    request.pin = ranks <= host_.cores;
    Stage stage(context_, "all_reduce between " + counted(ranks, "rank"),
                request.bytes.size() * kExchangeRounds);
    std::map<std::int64_t, std::vector<double>> times_us;
    const fs::path dir = make_run_dir(folder("exchange", ranks).string(), "");
    metrics::write_whole_file(dir / "request.json", bench::to_json_text(request) + "\n");
    launch::LocalJobOptions options;
    options.command = {find_worker(context_), "bench-comm", "--job",
                       (dir / "request.json").string(), "--json"};
    options.nproc_per_node = ranks;
    options.log_dir = (dir / "logs").string();
    options.on_report = [&](const std::string& line) {
      const bench::Report report = bench::read_report(line);
      const auto* sample = std::get_if<bench::Sample>(&report);
      if (sample == nullptr) return;
      times_us[sample->bytes].push_back(sample->slowest_us);
      stage.count(format_bytes(sample->bytes));
    };
    const launch::LocalJobResult result = launch::run_local_job(options);
    if (result.exit != Exit::ok) fail_bench(counted(ranks, "rank"), result, options.log_dir);
    for (const auto& [bytes, all] : times_us) {
      rates_.exchange.push_back({ranks, bytes, bench::median_of(all) * 1e-6});
    }
  }

  [[nodiscard]] fs::path folder(const std::string& what, int ranks) const {
    return fs::path(dir_) / (what + "-" + std::to_string(ranks));
  }

  const Context& context_;
  Host host_;
  std::string dir_;
  KernelRates rates_;
  bool few_ = false;  // for tests
};

}  // namespace

void calibrate(const Context& context, bool prints) { Calibration(context).run(prints); }

}  // namespace lockstep::cli
