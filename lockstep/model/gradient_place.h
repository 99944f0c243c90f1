// Where the gradient of a parameter is to be written, so that it need not be copied there.
#pragma once
#include <ATen/core/Tensor.h>

namespace lockstep::model {

/// Until it is taken or taken back: the next gradient of `parameter` may be written to `place`,
/// which has its sizes, strides and type. For operators of ours; others need not know of it.
void offer_gradient_place(const at::Tensor& parameter, const at::Tensor& place);
void withdraw_gradient_places();

/// For one gradient of `parameter`; undefined when nobody offered one, or it is taken. A further
/// use of the parameter in the same backward then gets memory of its own, and is added.
[[nodiscard]] at::Tensor take_gradient_place(const at::Tensor& parameter);

}  // namespace lockstep::model
