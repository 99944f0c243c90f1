#include "lockstep/topology/reference_model.h"

#include "lockstep/base/error.h"

namespace lockstep {

config::RunConfig reference_config(Kernel kernel, config::Dtype type) {
  config::RunConfig config;
  config.precision.compute = type;
  config.data.format = config::DataFormat::synthetic;
  config.optimizer.lr = 1e-4;
  if (kernel == Kernel::gpt_step) {
    config.model.family = config::Family::gpt;
    config.model.layers = 2;
    config.model.width = 320;
    config.model.heads = 5;
    config.model.vocab_size = 1024;
    config.data.seq_len = 192;
    config.data.train_samples = 1024;
    config.batch.micro_batch = 4;
    config.optimizer.name = config::OptimizerName::adamw;
    return config;
  }
  LOCKSTEP_CHECK(kernel == Kernel::resnet_step, "a kernel that is no model");
  config.model.family = config::Family::resnet;
  config.model.depth = 18;
  config.model.channels = 3;
  config.model.image_size = 32;
  config.data.train_samples = 256;
  config.batch.micro_batch = 8;
  config.optimizer.momentum = 0.9;
  return config;
}

}  // namespace lockstep
