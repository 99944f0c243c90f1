// Multi-layer perceptron: hidden layers of one width with ReLU, then a linear head.
#pragma once
#include <memory>

#include "lockstep/model/init.h"
#include "lockstep/model/model.h"

namespace lockstep::model {

/// Blocks "layers.<i>" and "head"; images are flattened to features.
[[nodiscard]] std::unique_ptr<Model> make_mlp(const config::ModelSection& config,
                                              Initializer& init);

}  // namespace lockstep::model
