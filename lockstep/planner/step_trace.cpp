#include "lockstep/planner/step_trace.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <utility>

#include "lockstep/base/units.h"

namespace lockstep::planner {
namespace {

constexpr std::array<const char*, 5> kLanes{"computing", "tensor ranks' exchange",
                                            "hand over to other stages", "data ranks' exchange",
                                            "data loading"};

template <typename... Values>
void append(std::string& text, const char* pattern, Values... values) {
  char line[320];
  const int length = std::snprintf(line, sizeof line, pattern, values...);
  // Of a line that had no room the length is that of the whole.
  text.append(line, std::min(static_cast<std::size_t>(std::max(0, length)), sizeof line - 1));
}

class Trace {
 public:
  void event(const std::string& name, int stage, Lane lane, double begin_s, double end_s) {
    lanes_.emplace(stage, lane);
    append(text_,
           "{\"name\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f},\n",
           name.c_str(), stage, static_cast<int>(lane), 1e6 * begin_s, 1e6 * (end_s - begin_s));
  }

  [[nodiscard]] std::string whole(std::int64_t devices_per_stage) && {
    int last = -1;
    for (const auto& [stage, lane] : lanes_) {
      if (stage != last) name("process_name", stage, 0, process(stage, devices_per_stage));
      name("thread_name", stage, static_cast<int>(lane), kLanes.at(static_cast<std::size_t>(lane)));
      last = stage;
    }
    if (!text_.empty()) text_.erase(text_.size() - 2);  // the last comma
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + std::move(text_) + "\n]}\n";
  }

 private:
  static std::string process(int stage, std::int64_t devices) {
    return "stage " + std::to_string(stage) + ": one of " + counted(devices, "device") +
           " that do the same";
  }
  void name(const char* kind, int stage, int lane, const std::string& text) {
    append(text_, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,", kind, stage, lane);
    append(text_, "\"args\":{\"name\":\"%s\"}},\n", text.c_str());
  }

  std::string text_;
  std::set<std::pair<int, Lane>> lanes_;
};

std::string name_of(const StepEvent& event) {
  std::string name = event.backward ? "backward " : "forward ";
  name += std::to_string(event.micro_batch);
  if (event.chunk > 0) name += ", chunk " + std::to_string(event.chunk);
  return name;
}

std::string name_of(const LaneEvent& event) {
  std::string name(event.name);
  return event.number < 0 ? name : name + " " + std::to_string(event.number);
}

}  // namespace

std::string chrome_trace(const StepEvents& step, std::int64_t devices_per_stage) {
  Trace trace;
  for (const StepEvent& event : step.events) {
    trace.event(name_of(event), event.stage, Lane::computing, event.begin_s, event.end_s);
  }
  for (const LaneEvent& event : step.others) {
    trace.event(name_of(event), event.stage, event.lane, event.begin_s, event.end_s);
  }
  return std::move(trace).whole(devices_per_stage);
}

}  // namespace lockstep::planner
