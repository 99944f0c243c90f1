#include "lockstep/model/gradient_place.h"

#include <unordered_map>

namespace lockstep::model {
namespace {

/// Backward of a graph on the CPU runs on the thread that calls it.
std::unordered_map<const c10::TensorImpl*, at::Tensor>& places() {
  thread_local std::unordered_map<const c10::TensorImpl*, at::Tensor> of_this_thread;
  return of_this_thread;
}

}  // namespace

void offer_gradient_place(const at::Tensor& parameter, const at::Tensor& place) {
  places().insert_or_assign(parameter.unsafeGetTensorImpl(), place);
}

void withdraw_gradient_places() { places().clear(); }

at::Tensor take_gradient_place(const at::Tensor& parameter) {
  const auto found = places().find(parameter.unsafeGetTensorImpl());
  if (found == places().end()) return {};
  // A tensor of its own: autograd keeps a gradient that nobody else holds, and copies another.
  at::Tensor place = found->second.variable_data();
  places().erase(found);
  return place;
}

}  // namespace lockstep::model
