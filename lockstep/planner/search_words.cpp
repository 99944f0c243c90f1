#include "lockstep/planner/search_words.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "lockstep/base/units.h"

namespace lockstep::planner {
namespace {

using parallel::Layout;
using parallel::MemoryPlan;
using parallel::Offload;
using parallel::PipelineSchedule;
using parallel::Recompute;
using parallel::TimePrediction;

struct NamedSeconds {
  std::string_view name;
  double seconds = 0;
};

std::array<NamedSeconds, 7> parts_of_time(const TimePrediction& time) {
  return {{{"computing", time.forward_s + time.backward_s},
           {"computing once more", time.recompute_s},
           {"exchange of tensor, context and expert ranks", time.tensor_comm_s},
           {"handing over between stages", time.pipeline_comm_s},
           {"exchange of data ranks", time.exposed_data_comm_s},
           {"waiting for other stages", time.bubble_s},
           {"the optimizer", time.optimizer_s}}};
}

struct NamedBytes {
  std::string_view name;
  std::int64_t bytes = 0;
};

NamedBytes largest_of(const MemoryPlan& memory) {
  const std::array<NamedBytes, 7> all{{{"parameters", memory.parameters},
                                       {"gradients", memory.gradients},
                                       {"optimizer", memory.optimizer},
                                       {"activations", memory.activations},
                                       {"buffers", memory.buffers},
                                       {"communication", memory.communication},
                                       {"runtime", memory.runtime}}};
  return *std::max_element(all.begin(), all.end(), [](const NamedBytes& a, const NamedBytes& b) {
    return a.bytes < b.bytes;
  });
}

bool takes_less(const NamedSeconds& a, const NamedSeconds& b) { return a.seconds < b.seconds; }

class Flags {
 public:
  void degree(std::string_view flag, std::int64_t value) {
    if (value > 1) number(flag, value);
  }
  void number(std::string_view flag, std::int64_t value) { word(flag, std::to_string(value)); }
  void word(std::string_view flag, std::string_view value) {
    text_ += (text_.empty() ? "" : " ") + std::string(flag);
    if (!value.empty()) text_ += " " + std::string(value);
  }
  [[nodiscard]] std::string text() && { return std::move(text_); }

 private:
  std::string text_;
};

std::string listed(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) {
    text += (text.empty() ? "" : ",") + std::to_string(number);
  }
  return text;
}

}  // namespace

std::string flags_of(const Layout& layout) {
  Flags flags;
  flags.number("--data", layout.data);
  if (layout.zero > 0) flags.number("--zero", layout.zero);
  if (layout.keeps_gathered) flags.word("--keep-gathered", "");
  flags.degree("--tensor", layout.tensor);
  if (layout.sequence) flags.word("--sequence", "");
  flags.degree("--pipeline", layout.pipeline);
  if (layout.schedule != PipelineSchedule::none) {
    flags.word("--schedule", to_text(layout.schedule));
  }
  flags.degree("--chunks", layout.chunks);
  if (!layout.cuts.empty()) flags.word("--cuts", listed(layout.cuts));
  flags.degree("--context", layout.context);
  flags.degree("--expert", layout.expert);
  flags.degree("--tables", layout.tables);
  flags.number("--micro-batch", layout.micro_batch);
  flags.number("--accumulation", layout.accumulation);
  if (layout.recompute != Recompute::none) flags.word("--recompute", to_text(layout.recompute));
  if (layout.flash_attention) flags.word("--flash-attention", "");
  if (layout.offload_optimizer != Offload::none) {
    flags.word("--offload-optimizer", to_text(layout.offload_optimizer));
  }
  if (layout.offload_parameters != Offload::none) {
    flags.word("--offload-parameters", to_text(layout.offload_parameters));
  }
  return std::move(flags).text();
}

std::string does_not_fit(const MemoryPlan& memory, std::int64_t device) {
  const NamedBytes most = largest_of(memory);
  return "does not fit: " + format_bytes(memory.total()) + " of " + format_bytes(device) +
         ", most of it " + std::string(most.name) + " (" + format_bytes(most.bytes) + ")";
}

std::string slower_than(const TimePrediction& best, const TimePrediction& time) {
  std::string text =
      format_duration(time.step_s) + " a step against " + format_duration(best.step_s);
  const double more = time.step_s / best.step_s - 1;
  if (more < 0.0005) {
    return text + ", " + format_percent(std::max(0.0, -more)) +
           " less: closer than predictions are, and more to switch on or closer to the limit of "
           "memory";
  }
  std::array<NamedSeconds, 7> parts = parts_of_time(time);
  const std::array<NamedSeconds, 7> of_best = parts_of_time(best);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].seconds -= of_best[i].seconds;
  const NamedSeconds& most = *std::max_element(parts.begin(), parts.end(), takes_less);
  return text + ", " + format_percent(more) + " more: " + std::string(most.name) + " takes " +
         format_duration(most.seconds) + " longer";
}

std::string good_because(const RankedLayout& ranked, std::int64_t device) {
  const TimePrediction& time = ranked.time;
  const std::array<NamedSeconds, 7> parts = parts_of_time(time);
  const NamedSeconds& lost = *std::max_element(parts.begin() + 1, parts.end(), takes_less);
  std::string text = "computes for " + format_percent(parts.front().seconds / time.step_s) +
                     " of the " + format_duration(time.step_s) + " a step";
  if (lost.seconds > 0) {
    text += ", " + format_percent(lost.seconds / time.step_s) + " is " + std::string(lost.name);
  }
  text += "; takes " + format_bytes(ranked.memory.total()) + " of " + format_bytes(device);
  if (ranked.host_bytes > 0) text += ", of the host " + format_bytes(ranked.host_bytes);
  if (ranked.nvme_bytes > 0) text += ", of its disk " + format_bytes(ranked.nvme_bytes);
  return text;
}

}  // namespace lockstep::planner
