// Ten steps on two ranks beside PyTorch DDP on two ranks: fixtures by
// tests/parity/make_fixtures.py.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "lockstep/checkpoint/format/input_file.h"
#include "lockstep/checkpoint/format/safetensors.h"
#include "lockstep/config/parse.h"
#include "lockstep/model/model.h"
#include "lockstep/parallel/compose.h"
#include "lockstep/parallel/strategies/registry.h"
#include "tests/support/rank_processes.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr int kRanks = 2;

/// The integer hash that both sides make weights and data from (lowbias32 by Chris Wellons).
std::uint32_t hashed(std::uint32_t key, std::uint64_t i) {
  auto x = static_cast<std::uint32_t>(i * 2654435761ULL + key);
  x ^= x >> 16;
  x *= 0x7FEB352DU;
  x ^= x >> 15;
  x *= 0x846CA68BU;
  x ^= x >> 16;
  return x;
}

double centred(std::uint32_t hash) { return hash / 4294967296.0 - 0.5; }

std::uint32_t fnv1a(const std::string& text) {
  std::uint32_t h = 2166136261U;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 16777619U;
  return h;
}

at::Tensor initial(const std::string& name, const at::Tensor& like) {
  if (like.dim() == 1) return at::full_like(like, name.ends_with(".weight") ? 1.0 : 0.0);
  const at::Tensor value = at::empty(like.sizes());
  const double bound = 1.0 / std::sqrt(static_cast<double>(like.numel() / like.size(0)));
  float* to = value.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < value.numel(); ++i) {
    to[i] =
        static_cast<float>(2 * bound * centred(hashed(fnv1a(name), static_cast<std::uint64_t>(i))));
  }
  return value;
}

struct Fixture {
  std::map<std::string, std::string> meta;
  at::Tensor losses;
  at::Tensor parameters;
  [[nodiscard]] std::int64_t number(const std::string& key) const {
    return meta.contains(key) ? std::stoll(meta.at(key)) : 0;
  }
};

Fixture read_fixture(const std::string& path) {
  const checkpoint::InputFile file(path);
  const checkpoint::SafetensorsHeader header = checkpoint::read_safetensors_header(file);
  Fixture fixture;
  fixture.meta = header.metadata;
  for (const checkpoint::TensorInfo& info : header.tensors) {
    at::Tensor tensor = at::empty({static_cast<std::int64_t>(info.shape.at(0))},
                                  info.dtype == "F64" ? at::kDouble : at::kFloat);
    file.read(header.data_start + info.begin,
              {static_cast<std::byte*>(tensor.mutable_data_ptr()), info.end - info.begin});
    (info.name == "losses" ? fixture.losses : fixture.parameters) = tensor;
  }
  return fixture;
}

bool is_fp16(const Fixture& fixture) { return fixture.meta.contains("compute"); }

config::RunConfig config_of(const Fixture& fixture) {
  std::string toml = "[model]\nfamily = \"" + fixture.meta.at("family") + "\"\n";
  for (const char* key : {"layers", "width", "heads", "vocab_size", "depth"}) {
    if (fixture.meta.contains(key)) toml += std::string(key) + " = " + fixture.meta.at(key) + "\n";
  }
  const bool adamw = fixture.meta.at("optimizer") == "adamw";
  toml += "[optimizer]\nname = \"" + fixture.meta.at("optimizer") + "\"\n";
  toml += adamw ? "weight_decay = 0.01\n" : "momentum = 0.9\nweight_decay = 5e-4\n";
  if (is_fp16(fixture)) toml += "[precision]\ncompute = \"fp16\"\n";
  const config::ParsedConfig parsed = config::parse_run_config(toml, "fixture");
  EXPECT_TRUE(parsed.problems.empty()) << to_text(parsed.problems);
  return parsed.config;
}

data::Batch batch_of(const Fixture& fixture, std::int64_t step, std::int64_t first,
                     std::int64_t count) {
  const bool tokens = fixture.meta.at("family") == "gpt";
  const std::int64_t length = tokens ? fixture.number("seq_len") : 784;
  data::Batch batch;
  batch.input = at::empty({count, length}, tokens ? at::kLong : at::kFloat);
  batch.target = tokens ? at::empty({count, length}, at::kLong) : at::empty({count}, at::kLong);
  for (std::int64_t b = 0; b < count; ++b) {
    const auto key = static_cast<std::uint32_t>((step * 100000 + first + b) * 7919 + 17);
    for (std::int64_t i = 0; i < length; ++i) {
      if (tokens) {
        const std::int64_t vocabulary = fixture.number("vocab_size");
        batch.input[b][i] = hashed(key, static_cast<std::uint64_t>(i)) % vocabulary;
        batch.target[b][i] = hashed(key, static_cast<std::uint64_t>(i) + 1) % vocabulary;
      } else {
        batch.input[b][i] = static_cast<float>(centred(hashed(key, static_cast<std::uint64_t>(i))));
      }
    }
    if (tokens) continue;
    const std::int64_t label = hashed(key, 784) % 10;
    batch.target[b] = label;
    for (std::int64_t i = 0; i < length; ++i) {
      if ((i % 28) * (label + 1) / 14 % 2 == 1) batch.input[b][i] += 1;
    }
  }
  if (fixture.meta.at("family") == "resnet") {
    batch.input = batch.input.view({count, 1, 28, 28}).contiguous(at::MemoryFormat::ChannelsLast);
  }
  batch.samples = count;
  batch.weight = batch.target.numel();
  return batch;
}

/// Final parameters in name order, every stride-th element.
at::Tensor sampled_parameters(parallel::Session& session, std::int64_t stride) {
  std::map<std::string, at::Tensor> sorted;
  for (const parallel::SessionTensor& t : session.state()) {
    if (t.kind == parallel::SessionTensor::Kind::parameter) sorted[t.name] = t.tensor;
  }
  std::vector<at::Tensor> flat;
  for (const auto& [name, tensor] : sorted) flat.push_back(tensor.contiguous().view({-1}));
  return at::cat(flat).slice(0, 0, {}, stride);
}

// fp16 rounds each value at 2^-12, and autocast rounds at other places than the flat weights do.
double loss_tolerance(const Fixture& fixture) { return is_fp16(fixture) ? 2e-3 : 1e-5; }

/// Of what training changed.
/// By how much the updates may differ. fp16 rounds as coarsely as another processor's kernels add
/// in another order, so there it is also what PyTorch differs from itself at the same split.
double change_tolerance(const Fixture& fixture) {
  const double change = std::stod(fixture.meta.at("change"));
  if (!is_fp16(fixture)) return 0.01 * change;
  return std::max(0.05 * change, std::stod(fixture.meta.at("self_parameters")));
}

double parameter_tolerance(const Fixture& fixture) {
  if (is_fp16(fixture)) return 1e-2;
  if (fixture.meta.at("family") == "resnet") return 1e-3;  // BatchNorm divides by small variances
  return fixture.meta.at("optimizer") == "adamw" ? 2e-4 : 1e-5;  // AdamW: sign-like first steps
}

void compare(const Fixture& fixture, comm::Group& group) {
  config::RunConfig config = config_of(fixture);
  parallel::ParallelPlan plan;
  plan.strategies = {"data_parallel"};
  plan.degree = {1, kRanks, 1};
  const std::int64_t global = fixture.number("batch");
  plan.batch = {global, global / kRanks, 1, kRanks, kRanks, false};
  auto model = model::make_model(config.model, fixture.number("seq_len"), 1);
  {
    const at::NoGradGuard no_grad;
    for (const model::NamedTensor& p : model::named_parameters(*model)) {
      p.tensor.copy_(initial(p.name, p.tensor));
    }
  }
  const auto session = parallel::compose({config, plan, Mesh(plan.degree), {group, group}},
                                         std::move(model), parallel::strategies());
  double worst_loss = 0;
  const std::int64_t steps = fixture.losses.numel();
  for (std::int64_t step = 0; step < steps; ++step) {
    session->begin_step(step);
    session->forward_backward(
        batch_of(fixture, step, group.rank() * global / kRanks, global / kRanks), group.rank(),
        true);
    const parallel::StepSums sums = session->reduce();
    const double loss = sums.loss_sum / static_cast<double>(sums.weight);
    const double expected = fixture.losses[step].item<double>();
    worst_loss = std::max(worst_loss, std::abs(loss - expected) / expected);
    session->optimizer_step(std::stod(fixture.meta.at("lr")));
  }
  const at::Tensor ours = sampled_parameters(*session, fixture.number("stride"));
  ASSERT_EQ(ours.numel(), fixture.parameters.numel());
  const double difference =
      ((ours - fixture.parameters).norm() / fixture.parameters.norm()).item<double>();
  if (group.rank() == 0) {
    std::cout << "PARITY " << fixture.meta.at("family") << " " << fixture.meta.at("optimizer")
              << (is_fp16(fixture) ? " fp16" : "") << ": losses " << worst_loss
              << " (PyTorch to itself " << fixture.meta.at("self_losses") << "), parameters "
              << difference << " (PyTorch to itself " << fixture.meta.at("self_parameters")
              << "), of which training changed " << fixture.meta.at("change") << std::endl;
  }
  EXPECT_LT(worst_loss, loss_tolerance(fixture));
  EXPECT_LT(difference, parameter_tolerance(fixture));
  // The updates agree too.
  EXPECT_LT(difference, change_tolerance(fixture));
}

std::vector<std::string> fixture_files() {
  const char* other =
      std::getenv("LOCKSTEP_PARITY_FIXTURES");  // set by tests/oracles; ctest runs from the root
  const fs::path folder = other != nullptr ? fs::path(other) : fs::path("tests/parity/fixtures");
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

class PyTorchParity : public testing::TestWithParam<std::string> {};

TEST_P(PyTorchParity, TenStepsOnTwoRanksEqualDistributedDataParallel) {
  const Fixture fixture = read_fixture(GetParam());
  test::run_ranks(kRanks, [&](comm::Group& group) { compare(fixture, group); });
}

INSTANTIATE_TEST_SUITE_P(Fixtures, PyTorchParity, testing::ValuesIn(fixture_files()),
                         [](const auto& info) { return fs::path(info.param).stem().string(); });

}  // namespace
}  // namespace lockstep
