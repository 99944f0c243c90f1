// Shapes: n ranks, P elements of one rank's part, F elements of a whole buffer; fp32.
#include "lockstep/worker/bench_comm.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "lockstep/base/clock.h"
#include "lockstep/comm/bench/regime.h"
#include "lockstep/comm/bench/request.h"
#include "lockstep/comm/bench/sample.h"
#include "lockstep/comm/group.h"

namespace lockstep::worker {
namespace {

using bench::Collective;
using comm::ReduceOp;

std::unique_ptr<comm::Group> make_group(const std::string& backend,
                                        const comm::GroupOptions& options) {
  if (backend == "gloo") return comm::make_gloo_group(options);
  if (backend == "shm") return comm::make_shm_group(options);
  if (backend == "shm+gloo") {
    comm::GroupOptions on_hosts = options;
    on_hosts.host_id = 2 * options.rank < options.size ? "first-half" : "second-half";
    return comm::make_group(on_hosts);
  }
  if (backend == "nccl") {
    comm::GroupOptions on_gpus = options;
    on_gpus.backend = comm::Backend::nccl;
    return comm::make_group(on_gpus);
  }
  throw UsageError({{"LS-7055", "request of bench comm", "no backend " + backend,
                     "use shm, gloo, shm+gloo or nccl"}});
}

bench::Request read_request(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (file.empty() || !in) {
    throw UsageError(
        {{"LS-7201", "lockstep-worker bench-comm", "its --job file '" + file + "' cannot be read",
          "start it with `lockstep bench comm`"}});
  }
  return bench::request_from_json_text(text.str());
}

/// The tensors of one collective at one size, and the call that is timed.
class Call {
 public:
  Call(comm::Group& group, Collective op, const bench::Extent& extent, bool symmetric)
      : group_(group), op_(op) {
    const auto options = at::TensorOptions().dtype(at::kFloat).device(group.device());
    if (symmetric && op == Collective::all_reduce) {
      full_ = group.symmetric_zeros(extent.full, at::kFloat).fill_(1);  // [F]
    } else if (extent.part > 0) {
      full_ = at::ones({group.size(), extent.part}, options);  // [n, P]
      part_ = at::ones({extent.part}, options);                // [P]
    } else {
      full_ = at::ones({extent.full}, options);  // [F]
    }
  }

  void run() {
    switch (op_) {
      case Collective::all_reduce:
        return group_.all_reduce(full_, ReduceOp::sum)->wait();
      case Collective::reduce_scatter:
        return group_.reduce_scatter(part_, full_, ReduceOp::sum)->wait();
      case Collective::all_gather:
        return group_.all_gather(full_, part_)->wait();
      case Collective::broadcast:
        return group_.broadcast(full_, 0)->wait();
      case Collective::barrier:
        return group_.barrier();
    }
  }

  /// A wrong result must not be timed. Runs once on buffers of ones: n everywhere after a sum.
  void check() {
    run();
    const bool sums = op_ == Collective::all_reduce || op_ == Collective::reduce_scatter;
    const at::Tensor& result = op_ == Collective::reduce_scatter ? part_ : full_;
    const float wanted = sums ? static_cast<float>(group_.size()) : 1.0F;
    LOCKSTEP_CHECK(result.numel() == 0 || at::all(result == wanted).item<bool>(),
                   std::string(bench::name_of(op_)) + " gave a wrong result");
    if (sums) full_.fill_(1);
  }

 private:
  comm::Group& group_;
  Collective op_;
  at::Tensor full_;
  at::Tensor part_;
};

/// What all rounds share. Members are in the order they depend on each other: threads of the groups
/// inherit the core.
class CommBench {
 public:
  CommBench(bench::Request request, const config::RankEnv& env)
      : request_(std::move(request)), env_(env), cores_(bench::allowed_cores()) {
    at::set_num_threads(1);
    const auto core = static_cast<std::size_t>(env.local_rank);
    if (request_.pin && core < cores_.size()) bench::pin_to(cores_[core]);
    ours_ = join(request_.backend, "bench-ours");
    if (!request_.against.empty()) theirs_ = join(request_.against, "bench-theirs");
  }

  void run() {
    for (int i = 0; i < request_.rounds; ++i) {
      const int round = request_.first_round + i;
      run_side(*ours_, round, false);
      if (theirs_) run_side(*theirs_, round, true);
    }
  }

 private:
  [[nodiscard]] std::unique_ptr<comm::Group> join(const std::string& backend,
                                                  const std::string& name) const {
    comm::GroupOptions options;
    options.rank = env_.rank;
    options.size = env_.world_size;
    options.store_host = env_.store_host;
    options.store_port = env_.store_port;
    options.host_store = !env_.store_hosted && env_.rank == 0;
    options.name = name;
    options.host_id = env_.host_id;
    options.address = env_.address;
    return make_group(backend, options);
  }

  void run_side(comm::Group& group, int round, bool is_theirs) {
    // The others wait in the first collective meanwhile, asleep.
    if (env_.rank == 0) report(bench::Probe{is_theirs, round, bench::probe_us(cores_)});
    for (const Collective op : request_.ops) {
      for (const std::int64_t bytes : sizes_of(request_, op)) {
        const bench::Extent extent = bench::extent_of(op, bytes, group.size());
        bench::Sample sample{is_theirs, op, extent.bytes(), round, {}, 0};
        measure(group, extent, sample);
        if (env_.rank == 0) report(sample);
      }
    }
  }

  /// Collective. Every sample starts together: the barrier is not part of the time.
  void measure(comm::Group& group, const bench::Extent& extent, bench::Sample& sample) const {
    Call call(group, sample.op, extent, request_.symmetric);
    call.check();
    for (int i = 0; i < request_.warmup; ++i) {
      group.barrier();
      call.run();
    }
    std::vector<double> times_us(static_cast<std::size_t>(request_.iterations));
    for (double& time_us : times_us) {
      group.barrier();
      const Stopwatch watch;
      call.run();
      time_us = watch.elapsed_s() * 1e6;
    }
    sample.time_us = bench::spread_of(times_us);
    sample.slowest_us = bench::median_of(slowest(group, std::move(times_us)));
  }

  static std::vector<double> slowest(comm::Group& group, std::vector<double> times_us) {
    const auto count = static_cast<std::int64_t>(times_us.size());
    const at::Tensor own = at::from_blob(times_us.data(), {count}, at::kDouble);
    const at::Tensor all = own.to(group.device()).clone();
    group.all_reduce(all, ReduceOp::max)->wait();
    own.copy_(all);
    return times_us;
  }

  void report(const bench::Report& line) const {
    const int fd = env_.report_fd >= 0 ? env_.report_fd : STDOUT_FILENO;
    ::dprintf(fd, "%s\n", bench::to_json_text(line).c_str());
  }

  bench::Request request_;
  config::RankEnv env_;
  std::vector<int> cores_;
  std::unique_ptr<comm::Group> ours_;
  std::unique_ptr<comm::Group> theirs_;
};

}  // namespace

Exit run_bench_comm(const RankArgs& args, const config::RankEnv& env) {
  CommBench(read_request(args.job_file), env).run();
  return Exit::ok;
}

}  // namespace lockstep::worker
