#include "lockstep/worker/batch_finder.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/engine/trainer.h"
#include "lockstep/memory/category.h"
#include "lockstep/rundir/earlier_run.h"
#include "lockstep/rundir/found_batch.h"
#include "lockstep/topology/cluster.h"

namespace lockstep::worker {
namespace {

using Clock = std::chrono::steady_clock;

// Passes of one probe: a first one that warms up, and others of which the fastest counts.
constexpr int kMostPasses = 8;
constexpr double kEnoughS = 0.3;

/// What a rank may have of its own host, where the plan was made on another.
std::int64_t share_of_host(int ranks) {
  Host host = probe_host();
  host.memory_free_bytes = 0;  // these very ranks have taken of it already
  return planner::memory_of_rank(host, ranks);
}

/// The first samples of this rank's part of the data's first step, again from the start where there
/// are fewer.
std::vector<std::int64_t> first_samples(const data::Sampler& sampler,
                                        const config::BatchShape& batch, int rank) {
  const std::vector<std::int64_t> step = sampler.step_ids({});
  const auto part = data::part_of(step, rank, batch.data_ranks);
  const auto& from = part.empty() ? std::span<const std::int64_t>(step) : part;
  std::vector<std::int64_t> ids;
  for (std::size_t i = 0; ids.size() < static_cast<std::size_t>(batch.micro_batch); ++i) {
    ids.push_back(from[i % from.size()]);
  }
  return ids;
}

std::int64_t bytes_of(const data::Batch& batch) {
  return static_cast<std::int64_t>(batch.input.nbytes() + batch.target.nbytes());
}

/// What one rank saw of a cut.
struct Tried {
  bool has_memory = true;
  double pass_s = 0;             // forward and backward of a micro-batch
  std::int64_t batch_bytes = 0;  // of a micro-batch
};

Tried try_passes(parallel::Session& session, const data::Dataset& train,
                 const std::vector<std::int64_t>& ids, std::uint64_t key,
                 const std::function<bool()>& stops_now) {
  Tried tried;
  session.set_leaves(kMostPasses + 1);  // no pass is the last of a step: nothing is exchanged
  session.begin_step(0);
  bool is_in_pass = false;
  try {
    const data::Batch batch = train.collate(ids, key);
    tried.batch_bytes = bytes_of(batch);
    double spent_s = 0;
    for (int pass = 0; pass < kMostPasses && (pass == 0 || spent_s < kEnoughS); ++pass) {
      if (stops_now()) break;
      const Clock::time_point begin = Clock::now();
      is_in_pass = true;
      session.forward_backward(batch, pass, /*last=*/false);
      is_in_pass = false;
      const double pass_s = std::chrono::duration<double>(Clock::now() - begin).count();
      tried.pass_s = pass < 2 ? pass_s : std::min(tried.pass_s, pass_s);
      spent_s += pass_s;
    }
  } catch (const std::exception& error) {
    if (!memory::is_out_of_memory(error)) throw;
    tried.has_memory = false;
  }
  if (is_in_pass) session.give_up_micro_batch();
  session.drop_step();
  (void)session.take_times();
  return tried;
}

std::string cut_text(const config::BatchShape& batch) {
  return "micro_batch " + format_count(batch.micro_batch) + " x accumulation " +
         format_count(batch.accumulation);
}

/// "64: 812 samples/s", "128: out of memory".
std::string result_text(const planner::ProbedCut& probed, const parallel::ParallelPlan& plan) {
  const std::string size = format_count(plan.batch.micro_batch) + ": ";
  if (!probed.fits) return size + "out of memory";
  return size + format_short(probed.samples_per_s) + " samples/s";
}

/// "micro_batch 32 x accumulation 8 after 3 probes (128: ..., 64: ..., 32: ...), 1.2 GB a rank".
std::string found_text(const std::vector<planner::ProbedCut>& probed,
                       const std::vector<parallel::ParallelPlan>& cuts) {
  const planner::ProbedCut& best = planner::best_probe(probed);
  std::string results;
  for (const planner::ProbedCut& one : probed) {
    results += (results.empty() ? "" : ", ") + result_text(one, cuts[one.cut]);
  }
  const std::string found = cut_text(cuts[best.cut].batch) + " after " +
                            counted(static_cast<std::int64_t>(probed.size()), "probe") + " (" +
                            results + ")";
  return best.fits ? found + ", " + format_bytes(best.needed_bytes) + " a rank" : found;
}

}  // namespace

BatchFinder::BatchFinder(planner::Job& job, comm::Group& world, const config::RankEnv& env,
                         ReportSink* sink)
    : job_(job), world_(world), sink_(sink) {
  if (!job.search) return;
  limit_bytes_ = job.search->memory_limit_bytes;
  const std::int64_t own = share_of_host(std::max(1, env.local_world_size));
  if (own > 0) limit_bytes_ = limit_bytes_ > 0 ? std::min(limit_bytes_, own) : own;
}

/// Where a step can still be cut finer, memory is refused before the machine has none: the kernel
/// would kill the process instead.
void BatchFinder::limit_memory() const {
  memory::limit_resident(job_.search->finer.empty() ? 0 : limit_bytes_);
}

bool BatchFinder::find(parallel::Session& session, const data::Dataset& train,
                       const data::Sampler& sampler, const std::function<bool()>& stops_now) {
  if (!job_.search || !session.may_give_up()) return true;
  limit_memory();
  if (!job_.search->probes) return true;
  std::vector<parallel::ParallelPlan> cuts{job_.plan};
  cuts.insert(cuts.end(), job_.search->finer.begin(), job_.search->finer.end());
  std::vector<planner::ProbedCut> probed;
  while (const auto next = planner::next_probe(probed, cuts.size())) {
    const auto one = probe(cuts[*next], *next, session, train, sampler, stops_now);
    if (!one) return false;
    probed.push_back(*one);
  }
  const planner::ProbedCut& best = planner::best_probe(probed);
  note(found_text(probed, cuts));
  job_.plan = cuts[best.cut];
  job_.search->finer.assign(cuts.begin() + static_cast<std::ptrdiff_t>(best.cut) + 1, cuts.end());
  session.set_leaves(engine::leaves_of_rank(job_.plan.batch, world_.rank()).count);
  memory::forget_peaks();  // what probes took is not what training takes
  limit_memory();
  if (best.fits) remember(best);
  return true;
}

std::optional<planner::ProbedCut> BatchFinder::probe(const parallel::ParallelPlan& plan,
                                                     std::size_t cut, parallel::Session& session,
                                                     const data::Dataset& train,
                                                     const data::Sampler& sampler,
                                                     const std::function<bool()>& stops_now) const {
  memory::release_cached();
  memory::reset_peak();
  const auto seed = static_cast<std::uint64_t>(job_.config.run.seed);
  const Tried tried = try_passes(session, train, first_samples(sampler, plan.batch, world_.rank()),
                                 data::augment_key(seed, 0), stops_now);
  // Beside the micro-batch at hand the loader holds whole steps.
  const std::int64_t ahead = config::steps_held(job_.config.data) * plan.batch.accumulation - 1;
  const std::int64_t needed = memory::peak_needed_bytes() + ahead * tried.batch_bytes;
  const bool fits = tried.has_memory && (limit_bytes_ == 0 || needed <= limit_bytes_);
  const at::Tensor worst = at::tensor(
      {fits ? 0.0 : 1.0, tried.pass_s, static_cast<double>(needed), stops_now() ? 1.0 : 0.0},
      at::TensorOptions().dtype(at::kDouble));
  const comm::Purpose purpose("what a micro-batch takes");
  world_.all_reduce(worst, comm::ReduceOp::max)->wait();
  const double* of_all = worst.const_data_ptr<double>();
  if (of_all[3] > 0) return std::nullopt;
  const double step_s = of_all[1] * static_cast<double>(plan.batch.accumulation) +
                        plan.exposed_comm_s + plan.optimizer_s;
  return planner::ProbedCut{cut, of_all[0] == 0,
                            static_cast<double>(plan.batch.global_batch) / step_s,
                            static_cast<std::int64_t>(of_all[2])};
}

std::vector<config::BatchShape> BatchFinder::finer() const {
  std::vector<config::BatchShape> shapes;
  if (!job_.search) return shapes;
  for (const parallel::ParallelPlan& plan : job_.search->finer) shapes.push_back(plan.batch);
  return shapes;
}

void BatchFinder::on_finer_cut(const engine::FinerCut& cut) {
  LOCKSTEP_CHECK(job_.search && !job_.search->finer.empty(),
                 "a step was cut without a plan for it");
  const std::string who =
      cut.rank >= 0 ? "rank " + std::to_string(cut.rank) : std::string("several ranks");
  note("step " + format_count(cut.step) + ": " + who + " ran out of memory with micro_batch " +
       format_count(job_.plan.batch.micro_batch) + "; it is repeated with " + cut_text(cut.batch) +
       ", the same " + counted(cut.batch.global_batch, "sample"));
  job_.plan = job_.search->finer.front();
  job_.search->finer.erase(job_.search->finer.begin());
  limit_memory();
  if (sink_ == nullptr) return;
  try {
    rundir::write_job_files(job_);
  } catch (const EnvironmentFault& fault) {
    note("config.json still has the micro_batch of before: " + fault.problems().front().what);
  }
  remember({});
}

/// On the printing rank. A folder that cannot be written costs the next run a search.
void BatchFinder::remember(const planner::ProbedCut& best) const {
  if (sink_ == nullptr) return;
  try {
    rundir::remember_micro_batch(
        job_, {job_.plan.batch.micro_batch, best.samples_per_s, best.needed_bytes});
  } catch (const EnvironmentFault& fault) {
    note("the micro_batch is not remembered: " + fault.problems().front().what);
  }
}

void BatchFinder::note(const std::string& text) const {
  if (sink_ != nullptr) sink_->send(metrics::Note{text});
}

}  // namespace lockstep::worker
