#include "lockstep/planner/step_events.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

namespace lockstep::planner {
namespace {

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

std::int64_t forwards_ahead(int stage, const Layout& layout) {
  const std::int64_t all = layout.accumulation * layout.chunks;
  if (layout.schedule == PipelineSchedule::gpipe) return all;
  const std::int64_t behind = layout.pipeline - 1 - stage;
  if (layout.chunks == 1) return std::min(all, behind);
  return std::min(all, 2 * behind + std::int64_t{layout.chunks - 1} * layout.pipeline);
}

std::vector<Task> order_of(int stage, const Layout& layout) {
  const std::int64_t all = layout.accumulation * layout.chunks;
  const std::int64_t ahead = forwards_ahead(stage, layout);
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

  StepEvents run() {
    StepEvents step;
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

std::string line(const std::string& name, int stage, double begin_s, double end_s) {
  char text[256];
  (void)std::snprintf(
      text, sizeof text,
      "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f},\n",
      name.c_str(), stage, 1e6 * begin_s, 1e6 * (end_s - begin_s));
  return text;
}

std::string name_of(const StepEvent& event) {
  std::string name = event.backward ? "backward " : "forward ";
  name += std::to_string(event.micro_batch);
  if (event.chunk > 0) name += ", chunk " + std::to_string(event.chunk);
  return name;
}

}  // namespace

StepEvents simulate_pipeline(const std::vector<StageTime>& stages, const Layout& layout) {
  return Pipeline(stages, layout).run();
}

std::string chrome_trace(const StepEvents& step, const parallel::TimePrediction& time,
                         std::int64_t devices_per_stage) {
  std::string text = "{\"traceEvents\":[\n";
  std::set<int> stages;
  for (const StepEvent& event : step.events) {
    stages.insert(event.stage);
    text += line(name_of(event), event.stage, event.begin_s, event.end_s);
  }
  for (const int stage : stages) {
    const double exchanged = step.pipeline_s + time.exposed_data_comm_s;
    text += line("data ranks' exchange", stage, step.pipeline_s, exchanged);
    text += line("optimizer", stage, exchanged, exchanged + time.optimizer_s);
    text += "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":0,\"tid\":" + std::to_string(stage) +
            ",\"args\":{\"name\":\"stage " + std::to_string(stage) + ", " +
            std::to_string(devices_per_stage) + " devices\"}},\n";
  }
  text.erase(text.size() - 2);  // the last comma
  return text + "\n]}\n";
}

}  // namespace lockstep::planner
