#include "lockstep/planner/step_events.h"

#include <algorithm>
#include <cmath>

#include "lockstep/parallel/plan/in_flight.h"

namespace lockstep::planner {
namespace {

using parallel::Bucket;
using parallel::BucketQueue;
using parallel::DataExchange;
using parallel::Layout;
using parallel::PipelineSchedule;
using parallel::StageTime;

constexpr double kNotYet = -1;

struct Task {
  int chunk = 0;
  std::int64_t micro_batch = 0;
  bool backward = false;
};

/// The k-th forward of a stage: p micro-batches through chunk 0, then the same through chunk 1, ...
Task forward_number(std::int64_t k, const Layout& layout) {
  const std::int64_t stages = layout.pipeline;
  const std::int64_t chunks = layout.chunks;
  const std::int64_t group = k / (stages * chunks);
  const std::int64_t size = std::min(stages, layout.accumulation - group * stages);
  const std::int64_t within = k - group * stages * chunks;
  return {static_cast<int>(within / size), group * stages + within % size, false};
}

Task backward_number(std::int64_t k, const Layout& layout) {
  Task task = forward_number(k, layout);
  task.chunk = layout.chunks - 1 - task.chunk;
  task.backward = true;
  return task;
}

std::vector<Task> order_of(int stage, const Layout& layout) {
  const std::int64_t all = layout.accumulation * layout.chunks;
  const std::int64_t ahead = parallel::forwards_ahead(layout, stage);
  std::vector<Task> order;
  for (std::int64_t k = 0; k < ahead; ++k) order.push_back(forward_number(k, layout));
  for (std::int64_t k = 0; k < all; ++k) {
    if (ahead + k < all) order.push_back(forward_number(ahead + k, layout));
    order.push_back(backward_number(k, layout));
  }
  return order;
}

/// Position of a chunk among all pieces that a micro-batch passes.
class Pipeline {
 public:
  Pipeline(const std::vector<StageTime>& stages, const Layout& layout)
      : stages_(stages),
        layout_(layout),
        pieces_(stages.size() * static_cast<std::size_t>(layout.chunks)),
        ended_(2 * pieces_ * static_cast<std::size_t>(layout.accumulation), kNotYet),
        free_(stages.size(), 0.0),
        next_(stages.size(), 0) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      orders_.push_back(order_of(static_cast<int>(i), layout));
    }
  }

  /// \param begins of each stage: nothing of it starts earlier.
  StepEvents run(const std::vector<double>& begins = {}) {
    if (!begins.empty()) free_ = begins;
    StepEvents step;
    step.events.reserve(ended_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < orders_.size(); ++stage) {
        while (next_[stage] < orders_[stage].size() && try_next(stage, step)) moved = true;
      }
    }
    for (std::size_t stage = 0; stage < free_.size(); ++stage) {
      step.pipeline_s = std::max(step.pipeline_s, free_[stage]);
      const StageTime& time = stages_[stage];
      step.busy_s =
          std::max(step.busy_s, static_cast<double>(layout_.accumulation) *
                                    (time.forward_s + time.backward_s + time.hand_over_s));
    }
    return step;
  }

 private:
  [[nodiscard]] std::size_t piece(std::size_t stage, const Task& task) const {
    return static_cast<std::size_t>(task.chunk) * stages_.size() + stage;
  }
  double& end_of(std::size_t piece, const Task& task, bool backward) {
    const std::size_t way = backward ? pieces_ : 0;
    return ended_[(way + piece) * static_cast<std::size_t>(layout_.accumulation) +
                  static_cast<std::size_t>(task.micro_batch)];
  }

  /// When what the task needs is there; kNotYet before that.
  double ready(std::size_t stage, const Task& task) {
    const std::size_t here = piece(stage, task);
    if (!task.backward) return here == 0 ? 0 : end_of(here - 1, task, false);
    return here + 1 == pieces_ ? end_of(here, task, false) : end_of(here + 1, task, true);
  }

  bool try_next(std::size_t stage, StepEvents& step) {
    const Task& task = orders_[stage][next_[stage]];
    const double from = ready(stage, task);
    if (from == kNotYet) return false;
    const StageTime& time = stages_[stage];
    const double own = task.backward ? time.backward_s : time.forward_s;
    const double begin = std::max(from, free_[stage]);
    const double end = begin + (own + time.hand_over_s / 2) / layout_.chunks;
    end_of(piece(stage, task), task, task.backward) = end;
    free_[stage] = end;
    ++next_[stage];
    step.events.push_back(
        {static_cast<int>(stage), task.chunk, task.micro_batch, task.backward, begin, end});
    return true;
  }

  const std::vector<StageTime>& stages_;
  const Layout& layout_;
  std::size_t pieces_;
  std::vector<double> ended_;
  std::vector<double> free_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<Task>> orders_;
};

double bytes_of(const std::vector<parallel::GradientPart>& parts) {
  double bytes = 0;
  for (const auto& part : parts) bytes += static_cast<double>(part.count) * part.bytes;
  return bytes;
}

/// What goes beside and behind one stage's own events.
class StageLanes {
 public:
  StageLanes(int stage, const StageTime& time, const DataExchange& exchange, const Layout& layout,
             const parallel::StepPace& pace, StepEvents& step)
      : stage_(stage),
        time_(time),
        exchange_(exchange),
        layout_(layout),
        pace_(pace),
        step_(step) {}

  /// Weights that the optimizer changed reach this stage before and beside its first forwards.
  /// \returns when those may begin.
  double gather_weights() {
    if (exchange_.gather.machine == nullptr || !exchange_.beside_forward) return 0;
    const double exposed = parallel::stage_exchange(time_, exchange_, layout_, pace_).gather_s;
    std::vector<Bucket> buckets;
    BucketQueue queue(exchange_.gather, exchange_.weight_bucket_bytes, &buckets);
    for (const auto& part : time_.weights) queue.add(part);
    queue.flush();
    // Against the order of forward, so from the end; back to back from the begin of the step on.
    double at = 0;
    for (std::size_t i = buckets.size(); i-- > 0;) {
      const double seconds = buckets[i].end_s - buckets[i].begin_s;
      add(Lane::data, "gather weights", static_cast<std::int64_t>(buckets.size() - 1 - i), at,
          at + seconds);
      at += seconds;
    }
    return exposed;
  }

  void beside(const StepEvent& event) {
    const double tensor = event.backward ? time_.backward_tensor_s : time_.forward_tensor_s;
    const double gather = event.backward ? time_.backward_gather_s : time_.forward_gather_s;
    const double hand_over = time_.hand_over_s / 2 / layout_.chunks;
    const double computed = event.end_s - hand_over;
    if (tensor > 0) {
      add(Lane::tensor, "exchange activations", event.micro_batch,
          computed - tensor / layout_.chunks, computed);
    }
    if (hand_over > 0) {
      add(Lane::hand_over, event.backward ? "hand back" : "hand on", event.micro_batch, computed,
          event.end_s);
    }
    if (gather > 0) {
      add(Lane::data, event.backward ? "gather weights, reduce gradients" : "gather weights",
          event.micro_batch, event.begin_s,
          std::min(event.end_s, event.begin_s + gather / layout_.chunks));
    }
  }

  /// \param last_backwards of this stage that leave gradients to exchange, in their order.
  /// \returns the end of this stage's step.
  double finish(const std::vector<const StepEvent*>& last_backwards, double computed_s) {
    double end = std::max(computed_s, reduce(last_backwards, computed_s));
    if (time_.optimizer_s > 0) {
      add(Lane::computing, "optimizer", -1, end, end + time_.optimizer_s);
      end += time_.optimizer_s;
    }
    if (exchange_.gather.machine != nullptr && !exchange_.beside_forward) {
      const double seconds = exchange_.gather.seconds(bytes_of(time_.weights));
      add(Lane::data, "gather weights", -1, end, end + seconds);
      end += seconds;
    }
    return end;
  }

 private:
  void add(Lane lane, std::string_view name, std::int64_t number, double begin_s, double end_s) {
    step_.others.push_back({stage_, lane, name, number, begin_s, end_s});
  }

  /// \returns when the last bucket is through.
  double reduce(const std::vector<const StepEvent*>& last_backwards, double computed_s) {
    if (exchange_.reduce.machine == nullptr) return computed_s;
    if (!exchange_.beside_backward) {
      const double seconds = parallel::stage_exchange(time_, exchange_, layout_, pace_).reduce_s;
      add(Lane::data, "all gradients", -1, computed_s, computed_s + seconds);
      return computed_s + seconds;
    }
    const auto chunks = parallel::cut_by_time(time_.gradients, layout_.chunks);
    std::vector<Bucket> buckets;
    BucketQueue queue(exchange_.reduce, exchange_.bucket_bytes, &buckets);
    for (const StepEvent* event : last_backwards) {
      queue.wait_until(event->begin_s);
      const auto piece = static_cast<std::size_t>(layout_.chunks - 1 - event->chunk);
      for (const auto& part : chunks[piece]) queue.add(part);
      queue.flush();
      queue.wait_until(event->end_s);
    }
    std::int64_t number = 0;
    for (const Bucket& bucket : buckets) {
      add(Lane::data, "gradients, bucket", number++, bucket.begin_s, bucket.end_s);
    }
    return queue.end_s();
  }

  int stage_;
  const StageTime& time_;
  const DataExchange& exchange_;
  const Layout& layout_;
  const parallel::StepPace& pace_;
  StepEvents& step_;
};

}  // namespace

StepEvents simulate_pipeline(const std::vector<StageTime>& stages, const Layout& layout) {
  StepEvents step = Pipeline(stages, layout).run();
  step.step_s = step.pipeline_s;
  return step;
}

StepEvents simulate_step(const parallel::StepParts& parts, const Layout& layout, double loading_s) {
  StepEvents before;
  std::vector<StageLanes> lanes;
  std::vector<double> begins;
  StepEvents step;
  const std::size_t stages = parts.stages.size();
  lanes.reserve(stages);
  parallel::StepPace pace;
  for (const StageTime& time : parts.stages) {
    pace.forward_s = std::max(pace.forward_s, time.forward_s + time.hand_over_s / 2);
  }
  for (std::size_t i = 0; i < stages; ++i) {
    lanes.emplace_back(static_cast<int>(i), parts.stages[i], parts.exchange, layout, pace, before);
    begins.push_back(lanes.back().gather_weights());
  }
  step = Pipeline(parts.stages, layout).run(begins);
  std::vector<std::vector<const StepEvent*>> last(stages);
  std::vector<double> computed(stages, 0);
  for (const StepEvent& event : step.events) {
    const auto stage = static_cast<std::size_t>(event.stage);
    lanes[stage].beside(event);
    computed[stage] = std::max(computed[stage], event.end_s);
    const bool counts =
        parts.exchange.each_micro_batch || event.micro_batch == layout.accumulation - 1;
    if (event.backward && counts) last[stage].push_back(&event);
  }
  step.step_s = loading_s;
  for (std::size_t i = 0; i < stages; ++i) {
    step.step_s = std::max(step.step_s, lanes[i].finish(last[i], computed[i]));
  }
  step.others = std::move(before.others);
  if (loading_s > 0)
    step.others.push_back({0, Lane::loading, "next step's data", -1, 0, loading_s});
  return step;
}

double most_events(const parallel::StepParts& parts, const Layout& layout) {
  double lanes = 1;
  double buckets = 0;
  const double times =
      parts.exchange.each_micro_batch ? static_cast<double>(layout.accumulation) : 1;
  for (const StageTime& stage : parts.stages) {
    if (stage.forward_tensor_s + stage.backward_tensor_s > 0) lanes = std::max(lanes, 2.0);
    if (stage.hand_over_s > 0) lanes = std::max(lanes, 3.0);
    if (stage.forward_gather_s > 0) lanes += 1;
    if (parts.exchange.reduce.machine == nullptr || !parts.exchange.beside_backward) continue;
    double blocks = layout.chunks;
    for (const auto& part : stage.gradients) blocks += static_cast<double>(part.count);
    const double size = parts.exchange.bucket_bytes;
    buckets += (2 + times) * (size > 0 ? bytes_of(stage.gradients) / size + layout.chunks : blocks);
  }
  return 2 * lanes * static_cast<double>(layout.accumulation) * layout.pipeline * layout.chunks +
         buckets + 4 * static_cast<double>(parts.stages.size());
}

}  // namespace lockstep::planner
