// lockstep-worker: one rank of a job.
#include <unistd.h>

#include <array>
#include <iostream>
#include <string_view>
#include <vector>

#include "lockstep/base/process.h"
#include "lockstep/memory/category.h"
#include "lockstep/worker/bench_checkpoint.h"
#include "lockstep/worker/bench_comm.h"
#include "lockstep/worker/bench_kernels.h"
#include "lockstep/worker/handle_errors.h"
#include "lockstep/worker/rank_args.h"
#include "lockstep/worker/train.h"

namespace lockstep::worker {
namespace {

struct Job {
  std::string_view name;
  Exit (*run)(const RankArgs& args, const config::RankEnv& env);
};

constexpr auto kJobs = std::to_array<Job>({{"train", run_train},
                                           {"bench-checkpoint", run_bench_checkpoint},
                                           {"bench-comm", run_bench_comm},
                                           {"bench-kernels", run_bench_kernels}});

Exit run(const std::vector<std::string>& words) {
  const RankArgs args = parse_rank_args(words);
  config::Starter starter = config::read_own_starter("rank");
  if (!starter.problems.empty()) throw UsageError(std::move(starter.problems));
  for (const Job& job : kJobs) {
    if (job.name == args.job_name) return job.run(args, starter.env);
  }
  throw UsageError({{"LS-7201", args.job_name, "lockstep-worker has no such job",
                     "use train, bench-checkpoint, bench-comm or bench-kernels"}});
}

}  // namespace
}  // namespace lockstep::worker

int main(int argc, char** argv) {
  lockstep::prepare_process();
  lockstep::memory::install();
  const std::vector<std::string> words(argv + 1, argv + argc);
  const lockstep::Exit exit = lockstep::worker::handle_errors(words, lockstep::worker::run);
  const int code = static_cast<int>(lockstep::settle_output(exit));
  std::cerr.flush();
  // Gloo's and LibTorch's static teardown takes longer than the work left to do: nothing.
  ::_exit(code);
}
