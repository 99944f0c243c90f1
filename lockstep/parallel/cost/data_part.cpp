// Data parallelism: every rank computes its part of the batch.
#include <algorithm>
#include <string>

#include "lockstep/base/units.h"
#include "lockstep/parallel/cost/check_layout.h"

namespace lockstep::parallel {
namespace {

void check_devices(const LayoutQuestion& q, std::vector<Problem>& problems) {
  if (q.devices <= 0 || q.layout.devices() == q.devices) return;
  const std::int64_t others = q.layout.devices() / std::max(1, q.layout.data);
  if (q.data_follows) {
    const std::int64_t below = q.devices / others * others;
    problems.push_back(
        {"LS-6104", std::string(q.devices_flag),
         counted(q.devices, "device") +
             " are no whole number of times tensor x pipeline x context = " + format_count(others),
         "use " + (below > 0 ? format_count(below) + " or " : std::string()) +
             format_count(below + others) + " devices, or other degrees"});
    return;
  }
  const std::int64_t data =
      std::max<std::int64_t>(1, q.devices / std::max<std::int64_t>(1, others));
  const std::string taken = std::to_string(others * data);
  const bool fits = others * data == q.devices;
  problems.push_back(
      {"LS-6104", "--data",
       "data x tensor x pipeline x context is " + std::to_string(q.layout.devices()) +
           ", but there are " + std::to_string(q.devices) + " devices",
       "use --data " + std::to_string(data) + (fits ? "" : ", which takes " + taken + " devices")});
}

/// Any two of the three numbers give the third; here all three are known.
void check_batch(const LayoutQuestion& q, std::vector<Problem>& problems) {
  const Layout& layout = q.layout;
  if (q.global_batch <= 0 || layout.global_batch() == q.global_batch) return;
  const std::int64_t step = layout.micro_batch * layout.data;
  if (step < 1) return;
  const std::int64_t accumulation = q.global_batch / step;
  std::string fix = "use a global batch of ";
  if (q.global_batch % step == 0) {
    fix += std::to_string(layout.global_batch()) + ", or --accumulation " +
           std::to_string(accumulation);
  } else {
    const std::string below = accumulation > 0 ? std::to_string(accumulation * step) + " or " : "";
    fix += below + std::to_string((accumulation + 1) * step) + ", and the accumulation for it";
  }
  problems.push_back(
      {"LS-1009", "--global-batch",
       std::to_string(q.global_batch) + " is not micro_batch x accumulation x data: " +
           std::to_string(layout.micro_batch) + " x " + std::to_string(layout.accumulation) +
           " x " + std::to_string(layout.data) + " = " + std::to_string(layout.global_batch()),
       fix});
}

void check(const LayoutQuestion& q, std::vector<Problem>& problems) {
  require_least("--data", q.layout.data, 1, problems);
  require_least("--micro-batch", q.layout.micro_batch, 1, problems);
  require_least("--accumulation", q.layout.accumulation, 1, problems);
  if (!problems.empty()) return;
  check_devices(q, problems);
  check_batch(q, problems);
}

/// Buckets that gradients are copied to. DDP's together hold all of them.
double bucket_bytes(const MemoryStack& stack, double gradients) {
  return stack.bucket_bytes > 0 ? std::min(gradients, stack.bucket_bytes) : gradients;
}

void add(const StageSetting& s, AddedBytes& bytes) {
  const MemoryStack& stack = s.stack();
  const bool whole = !s.layout().reduces_often();  // every rank has all gradients
  const double gradients = s.parameters.count() * s.recipe().reduce;
  // Stage 3 gathers them cast.
  if (s.layout().zero < 3) bytes.buffers += s.parameters.count() * s.recipe().casts;
  // This stack copies them with a single rank too.
  if (whole && stack.exchange == GradientExchange::copied) bytes.communication += gradients;
  if (s.layout().replicas() == 1) return;
  bytes.communication += stack.group_bytes;
  if (whole && stack.exchange == GradientExchange::bucketed) {
    bytes.communication += bucket_bytes(stack, gradients);
  }
}

void assume(const ActivationSetting& s, std::vector<std::string>& sentences) {
  sentences.push_back("precision " + std::string(s.recipe.name) + ": " +
                      std::string(s.recipe.summary) + " (" + std::string(s.recipe.source) + ")");
  if (s.stack.exchange == GradientExchange::copied) {
    sentences.emplace_back("gradients travel in one flat copy of all of them");
  }
}

}  // namespace

LayoutPart data_part() { return {"data", check, nullptr, add, assume}; }

}  // namespace lockstep::parallel
