// What one run should do, as run.toml and flags say it. Plain data: filled once by
// parse_run_config, checked once, then const. Defaults stand here and nowhere else;
// config/registry.cpp names the keys.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::config {

enum class Family : std::uint8_t { mlp, resnet, gpt };
enum class DataFormat : std::uint8_t { idx, cifar, text, synthetic };
enum class Augment : std::uint8_t { none, flip, flip_crop };
enum class OptimizerName : std::uint8_t { sgd, adamw };
enum class ScheduleName : std::uint8_t { constant, linear, cosine, one_cycle };
enum class Dtype : std::uint8_t { fp32, bf16, fp16 };
enum class Decay : std::uint8_t { all, matrices };
enum class Compression : std::uint8_t { none, powersgd };
enum class OnNan : std::uint8_t { stop, skip, rollback };

struct RunSection {
  std::string name = "run";
  std::int64_t seed = 1;
  std::optional<std::int64_t> steps;  // optimizer steps; steps and epochs: what ends first
  std::optional<double> epochs;
  std::int64_t eval_every = 0;       // steps between evaluations; 0 = only after the last step
  int threads = 1;                   // per rank; part of the numbers (architecture.md)
  std::int64_t check_gradients = 0;  // steps between comparisons with an undivided batch; 0 = never
};

/// Fields a family does not read must stay unset in run.toml; the parser refuses them.
struct ModelSection {
  Family family = Family::mlp;
  std::string config;             // of a model that is only planned: then nothing else here is read
  std::string weights;            // a file, folder or tag to start from; empty = initialised
  bool weights_partial = false;   // tensors that are not there stay as they were initialised
  std::string weights_strip;      // prefixes to take off their names; empty = what helps
  std::int64_t layers = 3;        // mlp: hidden layers; gpt: blocks
  std::int64_t width = 256;       // mlp: hidden width; gpt: model width
  std::int64_t heads = 6;         // gpt
  std::int64_t vocab_size = 256;  // gpt: rows of the embedding
  double dropout = 0.0;           // gpt
  std::int64_t depth = 20;        // resnet: 18 (CIFAR form), 20, 32, 44, 56 (6n+2 form)
  std::int64_t channels = 1;      // resnet: image planes
  std::int64_t image_size = 28;   // resnet: height and width in pixels
  std::int64_t inputs = 784;      // mlp: features of one sample
  std::int64_t classes = 10;      // mlp, resnet
};

struct DataSection {
  DataFormat format = DataFormat::synthetic;
  std::string train;           // file, folder, or "!command" whose output is the text (format text)
  std::string eval;            // same; empty = no evaluation
  std::int64_t seq_len = 256;  // tokens of one sample (text, synthetic tokens)
  int workers = 1;             // background threads that make batches; 0 = in the training thread
  int prefetch = 2;            // batches made ahead
  std::int64_t train_samples = 0;  // only the first; 0 = all. synthetic: how many there are
  std::int64_t eval_samples = 0;
  double eval_fraction = 0.0;       // text: share of the end of `train` held out when eval is empty
  Augment augment = Augment::none;  // images
  double mean = 0.0;                // images: (pixel / 255 - mean) / std
  double std = 1.0;
};

struct BatchSection {
  std::optional<std::int64_t> global_batch;  // samples of one optimizer step over all ranks
  std::optional<std::int64_t> micro_batch;   // samples of one forward of one rank
  std::optional<std::int64_t> accumulation;  // micro-batches of one rank a step
  bool finds_micro_batch = false;  // micro_batch = "auto": lockstep finds it; the number is unset
};

struct OptimizerSection {
  OptimizerName name = OptimizerName::sgd;
  double lr = 0.1;  // peak rate, after warm-up and batch scaling
  std::array<double, 2> betas{0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;  // sgd: L2 added to the gradient; adamw: decoupled
  Decay decay = Decay::all;   // which parameters weight_decay pulls
  double momentum = 0.0;
  bool nesterov = false;
  double clip_grad_norm = 0.0;  // L2 norm over all parameters; 0 = no clipping
};

struct ScheduleSection {
  ScheduleName name = ScheduleName::constant;
  std::int64_t warmup_steps = 0;   // linear from 0 to the peak; one_cycle: 0 = 30 % of the steps
  double final_lr_fraction = 0.0;  // linear, cosine: rate after the last step / peak
  std::int64_t scale_lr_with_batch = 0;  // lr becomes lr x global_batch / this; 0 = off
};

struct PrecisionSection {
  Dtype compute = Dtype::fp32;
  Dtype reduce = Dtype::fp32;        // type gradients are summed in over ranks
  std::optional<double> loss_scale;  // fp16: fixed; unset = "dynamic"
};

struct ParallelSection {
  std::optional<int> data;           // data-parallel ranks; unset = "auto" = all ranks
  std::optional<int> virtual_ranks;  // see "Same numbers" in docs/architecture.md
  double bucket_mib = 0;             // 0 = min(25 MiB, gradient bytes / 8)
  double first_bucket_mib = 1;
  bool sync_batch_norm = false;  // statistics over all ranks
  bool static_graph = false;     // what gets a gradient is the same in every step
  Compression gradient_compression = Compression::none;
  std::int64_t powersgd_rank = 4;
  std::optional<std::int64_t> powersgd_from;  // step; unset = schedule.warmup_steps
  std::int64_t local_steps = 1;       // updates between averages of the parameters; 1 = none
  std::int64_t local_steps_from = 0;  // step from which that is so; before it gradients are summed
};

struct CheckpointSection {
  std::int64_t every = 0;  // steps; 0 = only when stopped on request
  int keep = 2;
  bool async = false;  // written behind the training, from a copy in memory
  std::string dir;     // empty = RUN_DIR/checkpoints
};

struct RecoverySection {
  OnNan on_nan = OnNan::stop;
};

struct RunConfig {
  RunSection run;
  ModelSection model;
  DataSection data;
  BatchSection batch;
  OptimizerSection optimizer;
  ScheduleSection schedule;
  PrecisionSection precision;
  ParallelSection parallel;
  CheckpointSection checkpoint;
  RecoverySection recovery;
};

}  // namespace lockstep::config
