// Group over shared memory inside hosts and Gloo between them: a thread of its own carries out what
// the caller issues, in that order.
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/hierarchy.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/records/group_flight.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {
namespace {

// What another host keeps the thread with longer than this is left to the end of the process.
constexpr std::chrono::seconds kCloseDeadline{1};

/// One collective that was issued.
struct Task {
  Ticket ticket;
  std::string site;
  std::function<void(Hierarchy&)> run;
  std::promise<void> ended{};
};

/// What the caller, the thread and the collectives in flight share; lives as long as the last.
class Core {
 public:
  Core(const GroupOptions& options, const c10::intrusive_ptr<c10d::Store>& store,
       std::vector<RankPlace> places)
      : options_(options),
        flight_(options.flight, options.name, options.rank, options.size),
        hierarchy_(options, store, std::move(places)) {}

  [[nodiscard]] const GroupOptions& options() const { return options_; }
  [[nodiscard]] GroupFlight& flight() { return flight_; }

  [[nodiscard]] std::shared_future<void> issue(Task task);
  void run();  // of the thread
  void stop();

 private:
  [[nodiscard]] bool take(Task& task);
  void set_idle();  // before anybody hears of the end: who does may close the group
  void carry_out(Task& task);
  void end_all(std::exception_ptr error);
  void end_group(Task& task, std::exception_ptr error);
  [[nodiscard]] Problem told(const Task& task, Problem problem) const;

  const GroupOptions options_;
  GroupFlight flight_;
  Hierarchy hierarchy_;  // the thread's, but for end()

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  std::exception_ptr over_;  // why nothing goes on
  bool is_busy_ = false;
  bool stop_ = false;
};

std::shared_future<void> Core::issue(Task task) {
  std::shared_future<void> ended = task.ended.get_future().share();
  const std::lock_guard lock(mutex_);
  if (over_) {
    flight_.ended(task.ticket, false);
    std::rethrow_exception(over_);
  }
  queue_.push_back(std::move(task));
  changed_.notify_all();
  return ended;
}

bool Core::take(Task& task) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
  if (stop_) return false;
  task = std::move(queue_.front());
  queue_.pop_front();
  is_busy_ = true;
  return true;
}

void Core::set_idle() {
  const std::lock_guard lock(mutex_);
  is_busy_ = false;
}

void Core::run() {
  const at::NoGradGuard no_autograd;
  for (Task task; take(task); task = Task{}) carry_out(task);
  end_all(std::make_exception_ptr(PeerLost({"LS-4002", where_of(options_),
                                            "the group was closed with this collective in flight",
                                            "wait for every collective before closing"})));
}

/// Nothing is issued any more; what still waits for its turn fails. The first reason counts.
void Core::end_all(std::exception_ptr error) {
  std::deque<Task> failed;
  {
    const std::lock_guard lock(mutex_);
    if (!over_) over_ = std::move(error);
    is_busy_ = false;
    failed.swap(queue_);
  }
  for (Task& task : failed) {
    flight_.ended(task.ticket, false);
    task.ended.set_exception(over_);
  }
}

void Core::carry_out(Task& task) {
  flight_.started(task.ticket);
  const Purpose purpose(task.site);
  try {
    task.run(hierarchy_);
    flight_.ended(task.ticket, true);
    task.run = nullptr;  // lets go of its tensors before anybody knows
    set_idle();
    task.ended.set_value();
  } catch (const PeerLost& error) {
    flight_.ended(task.ticket, false);
    end_group(task, std::make_exception_ptr(PeerLost(told(task, error.problems().front()))));
  } catch (const std::exception&) {
    flight_.ended(task.ticket, false);
    end_group(task, std::current_exception());
  }
}

Problem Core::told(const Task& task, Problem problem) const {
  problem.where = where_of(options_);
  problem.what = flight_.failure_text(task.ticket, to_text(options_.deadline), problem.what);
  return problem;
}

/// The other ranks have heard of it already.
void Core::end_group(Task& task, std::exception_ptr error) {
  end_all(std::move(error));
  task.ended.set_exception(over_);
  hierarchy_.close();
}

void Core::stop() {
  bool in_flight = false;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    in_flight = is_busy_ || !queue_.empty();
    changed_.notify_all();
  }
  if (in_flight) {
    hierarchy_.end({false, "rank " + std::to_string(options_.rank) +
                               " closed the group with a collective in flight"});
  }
}

class HierarchicalWork : public Work {
 public:
  explicit HierarchicalWork(std::shared_future<void> ended) : ended_(std::move(ended)) {}

  void wait() override { ended_.get(); }  // every phase of it has the group's deadline
  [[nodiscard]] bool done() override {
    return ended_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  const std::shared_future<void> ended_;
};

class HierarchicalGroup : public Group {
 public:
  HierarchicalGroup(std::shared_ptr<Core> core, std::unique_ptr<store::Server> server)
      : Group(core->options().rank, core->options().size, "shm+gloo"),
        server_(std::move(server)),
        core_(std::move(core)) {
    std::promise<void> closed;
    closed_ = closed.get_future();
    thread_ = std::thread([core = core_, done = std::move(closed)]() mutable {
      core->run();
      core.reset();
      done.set_value();
    });
  }
  HierarchicalGroup(const HierarchicalGroup&) = delete;
  HierarchicalGroup& operator=(const HierarchicalGroup&) = delete;
  ~HierarchicalGroup() override;

 private:
  std::unique_ptr<Work> start_all_reduce(at::Tensor tensor, ReduceOp op, Order order) override;
  std::unique_ptr<Work> start_broadcast(at::Tensor tensor, int root) override;
  std::unique_ptr<Work> start_all_gather(at::Tensor output, at::Tensor input) override;
  std::unique_ptr<Work> start_reduce_scatter(at::Tensor output, at::Tensor input,
                                             ReduceOp op) override;
  void do_barrier() override;

  std::unique_ptr<Work> issue(std::string_view op, const at::Tensor& payload,
                              std::function<void(Hierarchy&)> run);

  std::unique_ptr<store::Server> server_;
  std::shared_ptr<Core> core_;
  std::future<void> closed_;
  std::thread thread_;
};

HierarchicalGroup::~HierarchicalGroup() {
  core_->stop();
  core_.reset();
  if (closed_.wait_for(kCloseDeadline) == std::future_status::ready) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

std::unique_ptr<Work> HierarchicalGroup::issue(std::string_view op, const at::Tensor& payload,
                                               std::function<void(Hierarchy&)> run) {
  std::string_view dtype;
  std::int64_t bytes = 0;
  if (payload.defined()) {
    dtype = shm::name(element_type(payload.scalar_type()));
    bytes = static_cast<std::int64_t>(payload.nbytes());
  }
  const std::int64_t count = payload.defined() ? payload.numel() : 0;
  const Ticket ticket = core_->flight().begin(op, dtype, count, bytes);
  auto ended = core_->issue({ticket, std::string(Purpose::current()), std::move(run)});
  return std::make_unique<HierarchicalWork>(std::move(ended));
}

std::unique_ptr<Work> HierarchicalGroup::start_all_reduce(at::Tensor tensor, ReduceOp op,
                                                          Order order) {
  return issue(order == Order::tree ? "tree all_reduce" : "all_reduce", tensor,
               [flat = tensor.detach().view(-1), op, order](Hierarchy& hierarchy) {
                 hierarchy.all_reduce(flat, op, order);
               });
}

std::unique_ptr<Work> HierarchicalGroup::start_broadcast(at::Tensor tensor, int root) {
  return issue("broadcast", tensor, [flat = tensor.detach().view(-1), root](Hierarchy& hierarchy) {
    hierarchy.broadcast(flat, root);
  });
}

std::unique_ptr<Work> HierarchicalGroup::start_all_gather(at::Tensor output, at::Tensor input) {
  return issue("all_gather", input,
               [to = output.detach().view({size(), -1}), from = input.detach().view(-1)](
                   Hierarchy& hierarchy) { hierarchy.all_gather(to, from); });
}

std::unique_ptr<Work> HierarchicalGroup::start_reduce_scatter(at::Tensor output, at::Tensor input,
                                                              ReduceOp op) {
  return issue("reduce_scatter", input,
               [to = output.detach().view(-1), from = input.detach().view({size(), -1}),
                op](Hierarchy& hierarchy) { hierarchy.reduce_scatter(to, from, op); });
}

void HierarchicalGroup::do_barrier() {
  issue("barrier", {}, [](Hierarchy& hierarchy) { hierarchy.barrier(); })->wait();
}

}  // namespace

std::unique_ptr<Group> make_hierarchical_group(const GroupOptions& options, Meeting meeting,
                                               std::vector<RankPlace> places) {
  auto core = std::make_shared<Core>(options, meeting.store, std::move(places));
  return std::make_unique<HierarchicalGroup>(std::move(core), std::move(meeting.server));
}

}  // namespace lockstep::comm
