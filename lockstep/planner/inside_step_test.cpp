// Whole steps that were measured beside operators: how much longer operators take inside a step.
#include <gtest/gtest.h>

#include "lockstep/planner/planner.h"
#include "lockstep/topology/reference_model.h"

namespace lockstep::planner {
namespace {

/// A machine whose operators are the typical ones, and whose steps of the reference models take
/// `gpt_s` and `resnet_s`; 0 = they were not measured.
Host host_of(double gpt_s, double resnet_s) {
  Host host;
  host.cores = 2;
  KernelRates rates = typical_rates();
  rates.cores = host.cores;
  for (KernelPoints& busy : rates.busy) {
    for (const config::Dtype type : {config::Dtype::fp32, config::Dtype::bf16}) {
      if (gpt_s > 0) busy.points.push_back({Kernel::gpt_step, type, {1, 1, 1}, gpt_s});
      if (resnet_s > 0) busy.points.push_back({Kernel::resnet_step, type, {1, 1, 1}, resnet_s});
    }
  }
  host.measured = std::make_shared<const KernelRates>(std::move(rates));
  return host;
}

double step_s(Kernel kernel, const Host& host) {
  return make_plan(reference_config(kernel, config::Dtype::fp32), host, 1, 0).step_s;
}

TEST(InsideAStep, AModelThatWasMeasuredIsPlannedToTakeWhatItTook) {
  for (const Kernel kernel : {Kernel::gpt_step, Kernel::resnet_step}) {
    const double by_operators_s = step_s(kernel, host_of(0, 0));
    for (const double longer : {0.9, 1.0, 1.2}) {
      const double measured_s = longer * by_operators_s;
      EXPECT_NEAR(step_s(kernel, host_of(measured_s, measured_s)) / measured_s, 1, 0.01)
          << info_of(kernel).name << " " << longer;
    }
  }
}

TEST(InsideAStep, EachKindOfModelGoesByItsOwn) {
  const double gpt_s = step_s(Kernel::gpt_step, host_of(0, 0));
  const double resnet_s = step_s(Kernel::resnet_step, host_of(0, 0));
  const Host host = host_of(1.2 * gpt_s, 0.9 * resnet_s);
  EXPECT_NEAR(step_s(Kernel::gpt_step, host) / gpt_s, 1.2, 0.02);
  EXPECT_NEAR(step_s(Kernel::resnet_step, host) / resnet_s, 0.9, 0.02);
}

TEST(InsideAStep, WhatCannotBeTheMachineIsNotBelieved) {
  const double by_operators_s = step_s(Kernel::gpt_step, host_of(0, 0));
  EXPECT_LT(step_s(Kernel::gpt_step, host_of(100 * by_operators_s, 0)), 1.7 * by_operators_s);
  EXPECT_GT(step_s(Kernel::gpt_step, host_of(1e-9, 0)), 0.6 * by_operators_s);
}

}  // namespace
}  // namespace lockstep::planner
