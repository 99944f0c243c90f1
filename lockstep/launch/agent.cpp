#include "lockstep/launch/agent.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

#include "lockstep/base/blocked_signals.h"
#include "lockstep/base/units.h"
#include "lockstep/launch/error_document.h"
#include "lockstep/launch/failure_report.h"
#include "lockstep/launch/failure_text.h"
#include "lockstep/launch/launch_values.h"
#include "lockstep/launch/lost_output.h"
#include "lockstep/launch/rank_logs.h"
#include "lockstep/launch/round_place.h"
#include "lockstep/launch/stop_signals.h"
#include "lockstep/launch/temporary_logs.h"
#include "lockstep/launch/verdict.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

using rendezvous::Failure;
using rendezvous::Round;
using rendezvous::RoundEnd;
using rendezvous::Session;
using rendezvous::Verdict;

constexpr std::chrono::seconds kStopBudget{30};  // torchrun's, from SIGTERM to SIGKILL

/// CUDA_VISIBLE_DEVICES of --virtual-local-rank: each rank sees its own device as number 0.
std::vector<std::string> virtual_rank_variables(const std::optional<std::string>& visible,
                                                int local_rank) {
  std::string device = std::to_string(local_rank);
  if (visible) {
    const auto devices = split(*visible, ',');
    const auto place = static_cast<std::size_t>(local_rank);
    if (place >= devices.size()) {
      throw UsageError({{"LS-1013", "CUDA_VISIBLE_DEVICES",
                         "names " + std::to_string(devices.size()) + " devices, and local rank " +
                             std::to_string(local_rank) + " has none",
                         "start as many ranks as devices, or leave --virtual-local-rank out"}});
    }
    device = trim(devices[place]);
  }
  return {"LOCAL_RANK=0", "CUDA_VISIBLE_DEVICES=" + device};
}

std::string signal_list(const std::vector<int>& signals) {
  std::string text;
  for (const int number : signals) text += (text.empty() ? "" : ",") + signal_name(number);
  return text;
}

/// Slurm's --signal=USR1 is, for ranks of ours, the wish to save and stop.
std::vector<int> signals_that_stop(const AgentSettings& settings) {
  std::vector<int> signals = settings.options.stop_signals;
  if (settings.program.is_ours) signals.push_back(SIGUSR1);
  return signals;
}

/// Options of the ranks of `round`, without logs and callbacks.
LocalJobOptions job_options(const AgentSettings& settings, const RankProgram& program,
                            const Round& round) {
  const LaunchOptions& launch = settings.options;
  LocalJobOptions job;
  job.command = program.argv;
  job.inherits_input = settings.inherits_input;
  job.nproc_per_node = launch.nproc_per_node;
  job.place = place_in(round);
  job.cpus = settings.cpus;
  job.threads_per_rank = settings.threads_per_rank;
  job.master_addr = round.master_addr;
  job.master_port = round.master_port;
  job.stop_budget = kStopBudget;
  job.ours = program.is_ours;
  job.extra_env = {"TORCHELASTIC_SIGNALS_TO_HANDLE=" + signal_list(launch.stop_signals)};
  for (int rank = 0; rank < launch.nproc_per_node; ++rank) {
    job.commands.push_back(local_rank_argv(program, launch.pass_local_rank, rank));
    if (launch.virtual_local_rank)
      job.rank_env.push_back(virtual_rank_variables(settings.visible_devices, rank));
  }
  return job;
}

class Agent {
 public:
  Agent(const AgentSettings& settings, Session& session)
      : settings_(settings),
        session_(session),
        signals_(signals_that_stop(settings), user_signals()),
        tree_(settings.options, settings.run_id) {}

  AgentEnd run() {
    say_folder();
    while (true) {
      auto next = session_.next(signals_.fd());
      if (const auto* verdict = std::get_if<Verdict>(&next)) return end_of_job(*verdict);
      const Round& round = std::get<Round>(next);
      say_restart(round);
      const RoundEnd end = run_ranks(round);
      session_.report(end);
    }
  }

 private:
  void say(const std::string& line) const {
    if (settings_.say) settings_.say(line);
  }

  void say_folder() const {
    if (!tree_.missing().empty()) say(tree_.missing());
    if (!tree_.has_output()) return;
    say("the ranks' output is in " + tree_.folder() +
        (tree_.is_temporary() ? ", for " + std::to_string(kDaysOfTemporaryLogs) +
                                    " days; --log-dir names a place where it stays"
                              : ""));
  }

  void say_restart(const Round& round) {
    if (rounds_ == 0) return;
    const bool counts = round.restart_count != std::exchange(restarts_, round.restart_count);
    say((last_failure_.empty() ? "" : last_failure_ + "\n") + "starting the ranks again: " +
        (counts
             ? "restart " + std::to_string(restarts_) + " of " + std::to_string(round.max_restarts)
             : counted(static_cast<std::int64_t>(round.seats.size()), "host") + ", " +
                   counted(round.world_size(), "rank") + "; no restart is used up"));
  }

  /// The store of a round is served by the host of its first seat, new and empty each time.
  void serve_store(const Round& round) {
    store_.reset();
    if (settings_.store_port == 0 || round.own_seat != 0) return;
    if (round.master_port != settings_.store_port) return;
    const BlockedSignals blocked;
    store_ = std::make_unique<store::Server>(round.master_addr, round.master_port);
  }

  RankProgram program_of(const Round& round) {
    RankProgram program = settings_.program;
    const bool is_first = rounds_ == 0 && round.generation <= 1 && round.restart_count == 0;
    was_first_ = was_first_ || is_first;
    if (!is_first && settings_.argv_again) program.argv = settings_.argv_again(was_first_);
    return program;
  }

  RoundEnd run_ranks(const Round& round) {
    serve_store(round);
    LocalJobOptions job = job_options(settings_, program_of(round), round);
    job.open_files = settings_.open_files;
    job.lost = &lost_;
    drop_signals();
    job.logs = tree_.make_attempt(rounds_, settings_.options.nproc_per_node);
    RankConsole console(settings_.options, tree_, rounds_++, job.place.base_rank, lost_,
                        settings_.only_stderr);
    job.on_output = [&](const OutputLine& line) { console.write(line); };
    std::atomic<std::int64_t> step = -1;
    if (settings_.on_report) {
      job.on_report = [&](const std::string& line) {
        if (settings_.step_of) step = settings_.step_of(line).value_or(step);
        settings_.on_report(line);
      };
    }
    last_ = run_round(job, signals_, watch());
    RoundEnd end = round_end(round);
    end.step = step;
    return end;
  }

  RoundWatch watch() {
    RoundWatch watch;
    watch.interrupt_fd = session_.interrupt_fd();
    watch.is_fenced = [this] { return session_.is_fenced(); };
    watch.may_save = [this] { return session_.may_save(); };
    watch.fence_at = [this] { return session_.fence_at(); };
    watch.on_stop = [this] { session_.leaving(); };
    watch.on_failure = [this](const RankEnd& end) { session_.failing(failure(end)); };
    watch.on_passed_on = [this](int signal, std::size_t told, std::size_t others) {
      say_passed_on(signal, told, others);
    };
    return watch;
  }

  /// Of the time when no rank ran: new ones would end of them before they can handle any.
  void drop_signals() {
    while (const auto number = signals_.next_passed_on()) {
      say(signal_name(*number) + " came while no rank ran, and was handed to none");
    }
  }

  void say_passed_on(int signal, std::size_t told, std::size_t others) const {
    std::string text = signal_name(signal) + " was handed to " +
                       counted(static_cast<std::int64_t>(told), "rank") + " of this host";
    if (others > 0) {
      text += "; not to " + std::to_string(others) +
              " that would have ended of it: a rank that wants it handles it, and a shell in front "
              "of a program starts that with exec";
    }
    say(text);
  }

  [[nodiscard]] Failure failure(const RankEnd& end) const {
    return failure_of(end, settings_.host, settings_.program.is_ours);
  }

  RoundEnd round_end(const Round& round) {
    RoundEnd end;
    last_failure_.clear();
    end.saved = std::any_of(last_.ends.begin(), last_.ends.end(), [&](const RankEnd& one) {
      return settings_.program.is_ours && has_exit(one, Exit::requeue);
    });
    if (last_.first_failure) {
      end.kind = RoundEnd::Kind::failed;
      end.failure = failure(*last_.first_failure);
      details_ = {last_.first_failure->ended_at_s, written_error_file(*last_.first_failure)};
      end.consequences = consequences();
      last_failure_ = failure_text(end.failure, details_);
      last_failure_.pop_back();
    } else if (last_.stopped_on_request) {
      end.kind = RoundEnd::Kind::stopped_on_request;
    } else if (last_.interrupted) {
      end.kind = RoundEnd::Kind::interrupted;
      last_failure_ = "the ranks of generation " + std::to_string(round.generation) +
                      " were stopped: " + session_.interrupt_reason();
    }
    return end;
  }

  static std::string written_error_file(const RankEnd& end) {
    return read_error_file(end.error_file) ? end.error_file : "";
  }

  [[nodiscard]] std::vector<Failure> consequences() const {
    std::vector<Failure> list;
    for (const RankEnd& end : last_.ends) {
      if (failed(end) && end.rank != last_.first_failure->rank) list.push_back(failure(end));
    }
    std::sort(list.begin(), list.end(),
              [](const Failure& a, const Failure& b) { return a.rank < b.rank; });
    return list;
  }

  AgentEnd end_of_job(const Verdict& verdict) {
    AgentEnd end{verdict.exit, restarts_, "", verdict.first.has_value(), lost_.problems()};
    if (verdict.exit == Exit::ok) tree_.set_succeeded();
    if (verdict.exit == Exit::ok) return end;
    if (verdict.first) {
      const Failure& first = *verdict.first;
      if (verdict.exit == Exit::failed) {
        end.exit = exit_for(first.exit_code, first.signal, settings_.program.is_ours);
      }
      if (is_own(first)) leave_error_file();
      end.text = failure_text(first, is_own(first) ? details_ : FailureDetails{});
    }
    if (!verdict.consequences.empty()) end.text += "as a consequence\n";
    for (const Failure& failure : verdict.consequences) {
      end.text += "  " + consequence_text(failure) + "\n";
    }
    if (!verdict.because.empty()) end.text += verdict.because + "\n";
    if (verdict.exit == Exit::requeue) {
      end.text += rounds_ == 0 ? "no rank had started: nothing is lost\n"
                               : "the state was saved; the same command goes on from there\n";
    }
    return end;
  }

  void leave_error_file() const {
    if (settings_.error_file.empty()) return;
    const int code = overwrite_file(settings_.error_file, error_document(*last_.first_failure));
    if (code == 0) return;
    say("the error file that TORCHELASTIC_ERROR_FILE names cannot be written: " +
        settings_.error_file + ": " + std::generic_category().message(code));
  }

  [[nodiscard]] bool is_own(const Failure& failure) const {
    return last_.first_failure && last_.first_failure->pid == failure.pid &&
           failure.host == settings_.host;
  }

  const AgentSettings& settings_;
  Session& session_;
  StopSignals signals_;
  LogTree tree_;
  LostOutput lost_;
  std::unique_ptr<store::Server> store_;
  LocalJobResult last_;       // of the last round
  FailureDetails details_;    // of its first failure
  std::string last_failure_;  // for people; empty = there was none
  bool was_first_ = false;    // in the first round of the job
  int rounds_ = 0;
  int restarts_ = 0;
};

}  // namespace

AgentEnd run_agent(const AgentSettings& settings, Session& session) {
  return Agent(settings, session).run();
}

std::vector<RankStart> plan_round(const AgentSettings& settings, const Round& round) {
  LocalJobOptions job = job_options(settings, settings.program, round);
  job.logs = planned_logs(settings.options, settings.run_id);
  return plan_ranks(job);
}

int threads_for(int ranks, int cores) { return ranks > 1 ? std::max(1, cores / ranks) : 0; }

}  // namespace lockstep::launch
