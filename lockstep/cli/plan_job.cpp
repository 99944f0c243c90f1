// From the flags of `lockstep plan` to a model on a cluster.
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/base/saturated.h"
#include "lockstep/base/units.h"
#include "lockstep/cli/plan_flags.h"
#include "lockstep/cli/run_flags.h"
#include "lockstep/config/convert.h"
#include "lockstep/config/run_file.h"
#include "lockstep/model/stats/architecture_stats.h"
#include "lockstep/model/stats/described_model.h"
#include "lockstep/model/stats/gpt_of_size.h"
#include "lockstep/parallel/cost/check_layout.h"
#include "lockstep/planner/cluster_spec.h"
#include "lockstep/planner/deepspeed_plan.h"

namespace lockstep::cli {
namespace {

using parallel::Layout;
using parallel::Offload;
using parallel::PipelineSchedule;
using parallel::Recompute;

constexpr std::string_view kUsualPrecision = "bf16";
/// Micro-batches of a pipeline stage where nobody says how many: from four times the stages on the
/// bubble matters little (Huang et al. 2019, arXiv:1811.06965, section 2.3).
constexpr std::int64_t kMicroBatchesAStage = 4;
constexpr std::int64_t kMostLayers = 1'000'000;  // of a stage
constexpr std::size_t kMostFileBytes = std::size_t{1} << 20;

template <typename Item>
void append(std::vector<Item>& items, std::vector<Item> more) {
  items.insert(items.end(), std::make_move_iterator(more.begin()),
               std::make_move_iterator(more.end()));
}

Offload offload_of(const std::string& word) {
  if (word == "cpu") return Offload::cpu;
  return word == "nvme" ? Offload::nvme : Offload::none;
}

std::string_view precision_name(config::Dtype compute) {
  switch (compute) {
    case config::Dtype::fp32:
      return "fp32";
    case config::Dtype::fp16:
      return "fp16";
    case config::Dtype::bf16:
      break;
  }
  return "bf16";
}

/// \throws UsageError for a file that cannot be read.
planner::ReadCluster cluster_of(const std::string& text) {
  std::error_code missing;
  if (!text.ends_with(".toml") && !std::filesystem::is_regular_file(text, missing)) {
    return planner::read_cluster(text, "--cluster");
  }
  return planner::read_cluster_file(
      config::read_run_file(text, kMostFileBytes, "the cluster's TOML file"), text);
}

double largest_tensor(const model::ModelStats& model) {
  std::int64_t most = 0;
  for (const model::BlockStats& block : model.blocks) {
    for (const model::ParameterStats& parameter : block.parameters) {
      const std::int64_t experts = parameter.of_experts ? parameter.shape.front() : 1;
      most = std::max(most, parameter.count() / std::max<std::int64_t>(1, experts));
    }
  }
  return static_cast<double>(most);
}

class JobReader {
 public:
  explicit JobReader(const Args& args) : args_(args) {}

  [[nodiscard]] planner::ClusterJob read() {
    try_to([&] { read_model(); });
    try_to([&] { read_devices(); });
    try_to([&] { read_deepspeed(); });
    read_precision();
    try_to([&] { read_saving(); });
    if (args_.has("--search")) {
      read_searched();
    } else {
      read_degrees();
      read_batch();
      read_schedule();
      settle_deepspeed();
    }
    check();
    if (!problems_.empty()) throw UsageError(std::move(problems_));
    read_rest();
    return std::move(job_);
  }

 private:
  /// What one part throws does not hide the problems of the others.
  template <typename Read>
  void try_to(const Read& read) {
    try {
      read();
    } catch (const UsageError& error) {
      append(problems_, error.problems());
    }
  }
  [[nodiscard]] std::int64_t number(std::string_view flag, std::int64_t otherwise) const {
    return args_.integer(flag).value_or(otherwise);
  }
  [[nodiscard]] int degree(std::string_view flag) const {
    return static_cast<int>(number(flag, 1));
  }

  /// What a person may want to say instead.
  void by_default(std::string_view flag, std::string_view value) {
    if (args_.has("--states-only") && flag != "--precision") return;
    defaults_ += (defaults_.empty() ? "" : ", ") + std::string(flag) + " " + std::string(value);
  }
  void assume(std::string sentence) { job_.assumptions.push_back(std::move(sentence)); }

  void read_model() {
    if (!args_.has("--params") && !args_.has("--model")) {
      read_run_file();
    } else if (args_.has("--params")) {
      job_.given_parameters = read_parameters(args_.text("--params")).value_or(0);
      job_.architecture = model::gpt_of_size(job_.given_parameters);
    } else {
      describe(args_.text("--model"), "--model");
    }
    append(problems_, model::check_architecture(job_.architecture));
    if (!problems_.empty()) return;
    const std::int64_t sequence = number("--seq-len", sequence_of_run_);
    job_.model = model::architecture_stats(job_.architecture, sequence);
    has_model_ = true;
    refuse_tokens();
    if (sequence == 0 && job_.model.counts_tokens) {
      by_default("--seq-len", std::to_string(job_.model.tokens_per_sample));
    }
  }

  void describe(const std::string& name, const std::string& where) {
    model::DescribedModel described = model::described_model(name, where);
    job_.architecture = std::move(described.architecture);
    append(job_.assumptions, std::move(described.assumptions));
  }

  void refuse_tokens() {
    if (job_.model.counts_tokens) return;
    const auto refuse = [&](const char* flag, const char* fix) {
      if (!args_.has(flag)) return;
      problems_.push_back({"LS-1020", flag, "samples of this model have no tokens", fix});
    };
    refuse("--seq-len", "drop it");
    refuse(
        "--tokens",
        "say how much is trained in samples: --samples 115e6 is 90 epochs of 1.28 million images");
  }

  /// \throws UsageError when it cannot be read.
  void read_run_file() {
    config::ParsedConfig parsed = read_run(args_);
    append(problems_, std::move(parsed.problems));
    run_ = std::move(parsed.config);
    const std::vector<std::string>& given = parsed.given;
    const bool says = std::find(given.begin(), given.end(), "data.seq_len") != given.end();
    if (run_->model.config.empty()) {
      append(problems_, model::check_model(run_->model));
      sequence_of_run_ = run_->data.seq_len;
      job_.architecture = model::architecture_of(run_->model, run_->data.seq_len);
      job_.architecture.name = run_->run.name;
    } else {
      if (says) sequence_of_run_ = run_->data.seq_len;
      describe(run_->model.config, "model.config");
    }
    for (std::string& note : parsed.notes) assume(std::move(note));
  }

  void read_devices() {
    if (args_.has("--cluster")) {
      planner::ReadCluster read = cluster_of(args_.text("--cluster"));
      append(problems_, std::move(read.problems));
      job_.machine = read.machine;
      job_.network_named = read.network_named;
      job_.source.bytes_per_s = read.read_bytes_per_s;
      if (read.machine) devices_ = read.machine->devices;
      return;
    }
    devices_ = number("--gpus", 0);
    const std::string name = args_.text("--gpu");
    if (name.empty()) return;
    append(problems_, check_device(name, "--gpu"));
    if (const DeviceModel* device = find_device(name)) {
      job_.machine = usual_machine(*device, std::max<std::int64_t>(1, devices_));
    }
  }

  void read_precision() {
    const std::string_view usual = run_ ? precision_name(run_->precision.compute) : kUsualPrecision;
    std::string name = args_.text("--precision", usual);
    if (job_.deepspeed) {
      planner::FilePrecision taken =
          planner::precision_by(job_.deepspeed->file, std::move(name), args_.has("--precision"));
      append(problems_, std::move(taken.problems));
      if (!taken.note.empty()) assume(std::move(taken.note));
      name = std::move(taken.name);
    }
    append(problems_, parallel::check_recipe(name));
    job_.recipe = parallel::find_recipe(name);
  }

  void read_saving() {
    Layout& layout = job_.layout;
    const std::string recompute = args_.text("--recompute", "none");
    layout.recompute = recompute == "full"        ? Recompute::full
                       : recompute == "selective" ? Recompute::selective
                                                  : Recompute::none;
    read_attention();
    layout.zero = static_cast<int>(number("--zero", 0));
    layout.shard = static_cast<int>(number("--shard", 0));
    layout.secondary_shard = static_cast<int>(number("--secondary-shard", 0));
    layout.offload_optimizer = offload_of(args_.text("--offload-optimizer"));
    layout.offload_parameters = offload_of(args_.text("--offload-parameters"));
    if (args_.has("--offload")) {
      layout.offload_optimizer = offload_of(args_.text("--offload"));
      if (layout.zero == 3) layout.offload_parameters = layout.offload_optimizer;
    }
    if (job_.deepspeed) put_deepspeed();
  }

  /// As PyTorch 2's scaled_dot_product_attention chooses where nobody says otherwise: flash needs
  /// 16 bits, heads of at most 256 and a device of its kernels, and takes no bias of positions.
  void read_attention() {
    const bool attends = has_model_ && job_.model.attention_flops_per_sample() > 0;
    for (const std::string_view flag : {"--flash-attention", "--no-flash-attention"}) {
      if (attends || !has_model_ || !args_.has(flag)) continue;
      problems_.push_back({"LS-1020", std::string(flag), "this model has no attention", "drop it"});
    }
    const bool said = args_.has("--flash-attention") || args_.has("--no-flash-attention");
    job_.layout.flash_attention = args_.has("--flash-attention");
    const bool counts = !args_.has("--states-only");
    if (!attends || said || !counts || job_.recipe == nullptr) return;
    constexpr std::int64_t kWidestHead = 256;
    std::string against;
    if (job_.architecture.positions == model::Positions::relative) {
      against = "it takes no relative positions";
    } else if (job_.architecture.head_width > kWidestHead) {
      against = "its heads are wider than " + std::to_string(kWidestHead);
    } else if (job_.recipe->compute > 2) {
      against = "it is of 16-bit types";
    } else if (job_.machine && !job_.machine->device.flash_attention) {
      against = "PyTorch 2 has no kernel for " + std::string(job_.machine->device.name);
    }
    job_.layout.flash_attention = against.empty();
    if (against.empty()) {
      by_default("--flash-attention", "as PyTorch 2 chooses");
    } else {
      by_default("--no-flash-attention", "(" + against + ")");
    }
  }

  void read_deepspeed() {
    if (!args_.has("--deepspeed")) return;
    const std::string file = args_.text("--deepspeed");
    job_.deepspeed.emplace();
    job_.deepspeed->file = planner::read_deepspeed_file(
        config::read_run_file(file, kMostFileBytes, "DeepSpeed's configuration"), file);
    if (run_) job_.deepspeed->facts = planner::facts_of(*run_);
  }

  void put_deepspeed() {
    planner::put_deepspeed_states(job_, args_.has("--recompute"));
    const int zero = job_.layout.zero;
    job_.deepspeed_rule = args_.has("--states-only") && zero >= 2;
    if (args_.has("--states-only") && zero < 2) {
      assume("DeepSpeed has no estimator for stage " + std::to_string(zero) +
             ": states as the ZeRO paper counts them");
    }
  }

  /// States alone are the same for any batch.
  void settle_deepspeed() {
    if (!job_.deepspeed || args_.has("--states-only") || job_.recipe == nullptr) return;
    const std::optional<Machine> machine = job_.machine;
    Layout probe = job_.layout;
    if (job_.deepspeed->file.zero.is_auto) probe.zero = 3;  // which goes with everything
    const bool sound = problems_.empty() && parallel::check_layout(question(probe)).empty();
    if (!sound) job_.machine.reset();  // nothing is found by memory
    append(problems_, planner::settle_deepspeed(job_, batch()));
    job_.machine = machine;
  }

  /// A search takes nothing of the layout but the samples of a step.
  void read_searched() {
    const config::BatchSection given = batch();
    std::int64_t samples = given.global_batch.value_or(0);
    if (job_.deepspeed) {
      samples = planner::deepspeed_global_batch(job_.deepspeed->file, given, devices_);
      const Recompute recompute = job_.layout.recompute;
      const bool flash = job_.layout.flash_attention;
      job_.layout = Layout{};  // what the file says is left to the search, as fixed_by has it
      job_.layout.recompute = recompute;
      job_.layout.flash_attention = flash;
    }
    if (samples == 0) {
      const auto devices = static_cast<double>(std::max<std::int64_t>(1, devices_));
      samples = Saturated::of(devices *
                              static_cast<double>(given.micro_batch.value_or(usual_micro_batch())) *
                              static_cast<double>(given.accumulation.value_or(1)))
                    .value();
      by_default("--global-batch", std::to_string(samples));
    }
    job_.layout.accumulation = samples;
    devices_ = 0;  // this layout is of one
  }

  void read_degrees() {
    Layout& layout = job_.layout;
    layout.tensor = degree("--tensor");
    layout.pipeline = degree("--pipeline");
    layout.context = degree("--context");
    layout.expert = degree("--expert");
    layout.sequence = args_.has("--sequence");
    layout.keeps_gathered = args_.has("--keep-gathered");
    const std::int64_t others = std::int64_t{1} * layout.tensor * layout.pipeline * layout.context;
    layout.data = degree("--data");
    if (devices_ == 0) {
      devices_ = layout.data * others;
      if (job_.machine) job_.machine->devices = devices_;
    } else if (!args_.has("--data")) {
      layout.data = static_cast<int>(std::max<std::int64_t>(1, devices_ / others));
      data_follows_ = true;
    }
    const bool looks_up = has_model_ && parallel::table_parameters(job_.model) > 0;
    layout.tables = static_cast<int>(number("--tables", looks_up ? layout.data : 1));
  }

  /// Where nobody says: one sample of tokens, of pictures and rows of tables as many as people
  /// usually take (He et al. 2016, arXiv:1512.03385: 32 a device; MLPerf training, DLRM: 65,536
  /// over eight).
  [[nodiscard]] std::int64_t usual_micro_batch() const {
    constexpr std::int64_t kPictures = 32;
    constexpr std::int64_t kRows = 8192;
    if (!has_model_ || job_.model.counts_tokens) return 1;
    return job_.architecture.kind == model::ArchitectureKind::resnet ? kPictures : kRows;
  }

  /// Of the flags, or else of RUN.toml.
  [[nodiscard]] config::BatchSection batch() const {
    config::BatchSection given;
    given.global_batch = args_.integer("--global-batch");
    given.micro_batch = args_.integer("--micro-batch");
    given.accumulation = args_.integer("--accumulation");
    const bool any = given.global_batch || given.micro_batch || given.accumulation;
    return any || !run_ ? given : run_->batch;
  }

  /// Any two of the three numbers give the third.
  void read_batch() {
    if (job_.deepspeed) return;  // settle_deepspeed
    Layout& layout = job_.layout;
    const config::BatchSection given = batch();
    global_batch_ = given.global_batch.value_or(0);
    const std::int64_t data = std::max(1, layout.data);
    layout.micro_batch = given.micro_batch.value_or(usual_micro_batch());
    if (global_batch_ > 0 && given.accumulation && !given.micro_batch) {
      layout.micro_batch = std::max<std::int64_t>(1, global_batch_ / (*given.accumulation * data));
    } else if (global_batch_ > 0 && global_batch_ < layout.micro_batch * data) {
      layout.micro_batch = std::max<std::int64_t>(1, global_batch_ / data);
    }
    const bool of_batch = global_batch_ > 0 && given.accumulation;
    if (!given.micro_batch && !of_batch) {
      by_default("--micro-batch", std::to_string(layout.micro_batch));
    }
    if (given.accumulation) {
      layout.accumulation = *given.accumulation;
    } else if (global_batch_ > 0) {
      layout.accumulation = std::max<std::int64_t>(1, global_batch_ / (layout.micro_batch * data));
    } else if (layout.pipeline > 1) {
      layout.accumulation = kMicroBatchesAStage * layout.pipeline;
      by_default("--accumulation", std::to_string(layout.accumulation));
    }
  }

  void read_schedule() {
    Layout& layout = job_.layout;
    layout.chunks = degree("--chunks");
    if (args_.has("--cuts")) read_cuts(args_.text("--cuts"));
    const std::string name = args_.text("--schedule");
    if (name == "gpipe") layout.schedule = PipelineSchedule::gpipe;
    if (name == "1f1b") layout.schedule = PipelineSchedule::one_f_one_b;
    if (name == "interleaved") layout.schedule = PipelineSchedule::interleaved;
    if (name.empty() && layout.pipeline > 1) {
      layout.schedule =
          layout.chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
    }
  }

  void read_cuts(std::string_view text) {
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t end = std::min(text.find(',', begin), text.size());
      std::int64_t layers = 0;
      if (!config::read_integer(text.substr(begin, end - begin), layers) || layers < 0 ||
          layers > kMostLayers) {
        problems_.push_back({"LS-1013", "--cuts", "cannot be " + std::string(text.substr(0, 64)),
                             "give the layers of each stage: 9,8,8,7"});
        job_.layout.cuts.clear();
        return;
      }
      job_.layout.cuts.push_back(layers);
      begin = end + 1;
    }
  }

  [[nodiscard]] parallel::LayoutQuestion question(const Layout& layout) const {
    parallel::LayoutQuestion question{layout};
    if (has_model_) question.model = &job_.model;
    if (has_model_) question.architecture = &job_.architecture;
    question.devices = devices_;
    question.data_follows = data_follows_;
    if (args_.has("--cluster")) question.devices_flag = "--cluster";
    return question;
  }

  void check() {
    parallel::LayoutQuestion all = question(job_.layout);
    all.global_batch = global_batch_;
    append(problems_, parallel::explain_layout(all));
  }

  void read_rest() {
    job_.states_only = args_.has("--states-only");
    job_.tokens = read_parameters(args_.text("--tokens")).value_or(0);
    if (args_.has("--samples")) {
      const double each =
          job_.model.counts_tokens ? static_cast<double>(job_.model.tokens_per_sample) : 1;
      job_.tokens = each * read_parameters(args_.text("--samples")).value_or(0);
    }
    read_source();
    if (!args_.has("--precision") && !run_ && !job_.deepspeed_rule) {
      by_default("--precision", kUsualPrecision);
    }
    if (!defaults_.empty()) {
      job_.assumptions.insert(job_.assumptions.begin(), "nobody said otherwise: " + defaults_);
    }
    if (job_.deepspeed_rule) {
      job_.largest_layer = read_parameters(args_.text("--largest-layer")).value_or(0);
      if (job_.largest_layer == 0) job_.largest_layer = largest_tensor(job_.model);
    }
  }

  [[nodiscard]] double bytes(std::string_view flag) const {
    return static_cast<double>(parse_bytes(args_.text(flag)).value_or(0));
  }

  /// Flags go before what the cluster's file says.
  void read_source() {
    job_.source.sample_bytes = bytes("--sample-bytes");
    job_.source.samples_per_s = static_cast<double>(number("--loader-rate", 0));
    if (args_.has("--read-rate")) job_.source.bytes_per_s = bytes("--read-rate");
  }

  const Args& args_;
  planner::ClusterJob job_;
  std::vector<Problem> problems_;
  std::optional<config::RunConfig> run_;  // where the model is that of RUN.toml
  std::int64_t sequence_of_run_ = 0;      // tokens of a sample by RUN.toml; 0 = as the model takes
  std::string defaults_;
  std::int64_t global_batch_ = 0;  // that was asked for
  std::int64_t devices_ = 0;       // 0 = as many as the degrees multiply to
  bool has_model_ = false;
  bool data_follows_ = false;  // as many data ranks as the other degrees leave of the devices
};

}  // namespace

planner::ClusterJob read_cluster_job(const Args& args) {
  const SetArgs set = with_sets_as_flags(args);
  if (!set.problems.empty()) throw UsageError(set.problems);
  return JobReader(set.args).read();
}

}  // namespace lockstep::cli
