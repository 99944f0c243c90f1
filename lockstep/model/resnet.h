// Residual networks in CIFAR form (He et al. 2016): a 3x3 stem, stages of basic blocks, pooled
// head.
#pragma once
#include <memory>

#include "lockstep/model/init.h"
#include "lockstep/model/model.h"

namespace lockstep::model {

/// Blocks "stem", "stage<s>.<i>" and "head". Stages and widths: \see resnet_stages.
[[nodiscard]] std::unique_ptr<Model> make_resnet(const config::ModelSection& config,
                                                 Initializer& init);

}  // namespace lockstep::model
