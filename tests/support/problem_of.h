// What something that must fail fails with.
#pragma once
#include <gtest/gtest.h>

#include <functional>

#include "lockstep/base/error.h"

namespace lockstep::test {

/// The first problem of the Fault that `action` ends with; the test fails when it throws none.
template <class Fault>
[[nodiscard]] Problem problem_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Fault& fault) {
    return fault.problems().front();
  }
  ADD_FAILURE() << "no such fault was thrown";
  return {};
}

}  // namespace lockstep::test
