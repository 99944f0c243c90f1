// lockstep doctor watch: who keeps whom waiting in a job, live or after its end.
#include <poll.h>

#include <array>
#include <chrono>
#include <ostream>

#include "lockstep/cli/commands.h"
#include "lockstep/cli/job_front.h"
#include "lockstep/comm/records/flight_verdict.h"
#include "lockstep/doctor/watch.h"
#include "lockstep/launch/stop_signals.h"

namespace lockstep::cli {
namespace {

constexpr std::array kFlags{
    Flag{.name = "--every",
         .value = "SECONDS",
         .help = "how often to look; default 1",
         .type = ValueType::number,
         .minimum = 0.1,
         .maximum = 3600},
    Flag{.name = "--once", .help = "look once and end"},
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep doctor watch runs/mnist", "a table of all ranks, drawn anew until the job ends"},
    {"lockstep doctor watch runs/mnist --once --json", "one look as one JSON document"},
});

/// Draws one report over the one before on a terminal; elsewhere prints when the verdict changed.
class WatchScreen {
 public:
  explicit WatchScreen(const Context& context)
      : context_(context), options_(console_options(context)) {}

  void show(const doctor::WatchReport& report) {
    if (context_.json) {
      context_.out << doctor::to_json_text(report) << std::endl;
      return;
    }
    const bool changed =
        report.verdict.kind != shown_.kind || report.verdict.ranks != shown_.ranks || lines_ == 0;
    if (!options_.terminal && !changed) return;
    const auto lines = doctor::to_lines(report, options_.width);
    // Back to the first line of what is there, and all below it away.
    if (options_.terminal && lines_ > 0) context_.out << "\x1b[" << lines_ << "A\x1b[J";
    const metrics::Tone tone = report.verdict.is_wrong() ? metrics::Tone::bad : metrics::Tone::good;
    bool in_verdict = true;
    for (const std::string& line : lines) {
      in_verdict = in_verdict && !line.empty();
      context_.out << (in_verdict ? options_.style.paint(tone, line) : line) << "\n";
    }
    context_.out << std::flush;
    lines_ = lines.size();
    shown_ = report.verdict;
  }

 private:
  const Context& context_;
  const metrics::ConsoleOptions options_;
  comm::Verdict shown_;
  std::size_t lines_ = 0;  // of the last report
};

Exit exit_of(const doctor::WatchReport& report) {
  return report.verdict.is_wrong() ? Exit::failed : Exit::ok;
}

/// True when a signal asked for the end.
bool wait_for(launch::StopSignals& signals, std::chrono::milliseconds time) {
  struct pollfd entry {};
  entry.fd = signals.fd();
  entry.events = POLLIN;
  return ::poll(&entry, 1, static_cast<int>(time.count())) > 0;
}

Exit run(const Args& args, const Context& context) {
  const std::string& run_dir = args.words().front();
  const std::chrono::milliseconds every(
      static_cast<std::int64_t>(args.number("--every").value_or(1) * 1000));
  launch::StopSignals signals;
  WatchScreen screen(context);
  for (;;) {
    const doctor::WatchReport report = doctor::watch_once(run_dir);
    screen.show(report);
    if (args.has("--once") || report.is_over || wait_for(signals, every)) return exit_of(report);
  }
}

}  // namespace

Command doctor_watch_command() {
  return {
      .name = "doctor watch",
      .summary = "who keeps whom waiting in a job, live or after its end",
      .description =
          "Reads what each rank last recorded in RUN_DIR/flight and says in one sentence whether "
          "the ranks move, or which one has not entered the collective that others wait in, what "
          "it does instead and since when; a stopped or ended process is named as such. It changes "
          "nothing and needs nothing from the job, so it also works on a job that hangs or is "
          "gone. Ends with the job or Ctrl-C. Exit code 0 when all is well, 1 when something is "
          "wrong, 2 when there are no flight files. With --json one document a look.",
      .examples = kExamples,
      .positional = {.name = "RUN_DIR", .help = "the run directory of the job", .at_least = 1},
      .flags = kFlags,
      .json = "a document for each look: verdict, ranks, notes, is_over.",
      .run = run};
}

}  // namespace lockstep::cli
