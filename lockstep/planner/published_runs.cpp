#include "lockstep/planner/published_runs.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <regex>

#include "lockstep/base/error.h"

namespace lockstep::planner {
namespace {

using parallel::PipelineSchedule;
using parallel::Recompute;

constexpr std::int64_t kGpt2Vocabulary = 50'304;  // in the FLOPs of rows without one, padded
constexpr double kMegatronDropout = 0.1;  // its default, of the residual stream and of scores

std::vector<std::string> fields_of(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw BadData(Problem{"LS-6113", where, what, "compare it with the rows beside it"});
}

[[noreturn]] void unreadable(const PublishedRow& row, const std::string& column) {
  refuse(row.at("id"), "column " + column + " says '" + row.at(column) + "'");
}

const std::string& text(const PublishedRow& row, const std::string& column) {
  const auto found = row.find(column);
  if (found == row.end()) refuse("published runs", "there is no column " + column);
  return found->second;
}

/// \param otherwise where the field is empty.
std::int64_t number(const PublishedRow& row, const std::string& column, std::int64_t otherwise) {
  const std::string& field = text(row, column);
  if (field.empty()) return otherwise;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error != std::errc() || end != field.data() + field.size() || value < 0) {
    unreadable(row, column);
  }
  return value;
}

/// A measurement; 0 where the field is empty.
double measured(const PublishedRow& row, const std::string& column) {
  const std::string& field = text(row, column);
  return field.empty() ? 0 : std::stod(field);
}

bool begins(const std::string& text, std::string_view with) { return text.starts_with(with); }

model::Architecture architecture_of_row(const PublishedRow& row) {
  model::Architecture a;
  a.name = text(row, "model");
  a.layers = number(row, "layers", 0);
  a.width = number(row, "hidden", 0);
  a.heads = number(row, "heads", 0);
  a.kv_heads = number(row, "kv_heads", a.heads);
  a.head_width = a.heads > 0 ? a.width / a.heads : 0;
  a.feed_forward = number(row, "ffn", 4 * a.width);
  a.vocabulary = number(row, "vocab", 0);
  a.default_sequence = number(row, "seq", 0);
  if (begins(a.name, "Llama")) {
    a.gated = true;
    a.rms_norm = true;
    a.biased = false;
    a.tied = false;
    a.positions = model::Positions::rotary;
  } else if (begins(a.name, "MPT")) {
    a.positions = model::Positions::none;
  } else {
    a.max_positions = a.default_sequence;
    a.dropout = kMegatronDropout;
  }
  return a;
}

int zero_stage(const std::string& sharding) {
  if (begins(sharding, "zero3") || begins(sharding, "fsdp1")) return 3;
  if (sharding == "fsdp") return 2;  // beside tensor and pipeline ranks weights stay gathered
  if (sharding == "distopt" || begins(sharding, "zero1")) return 1;
  return 0;
}

Recompute recompute_of(const std::string& column) {
  if (begins(column, "full")) return Recompute::full;
  return begins(column, "selective") ? Recompute::selective : Recompute::none;
}

parallel::Layout layout_of(const PublishedRow& row, const parallel::SoftwareStack* stack,
                           std::vector<std::string>& assumptions) {
  parallel::Layout layout;
  layout.tensor = static_cast<int>(number(row, "tp", 1));
  layout.pipeline = static_cast<int>(number(row, "pp", 1));
  layout.data = static_cast<int>(number(row, "dp", 1));
  layout.context = static_cast<int>(number(row, "cp", 1));
  layout.micro_batch = number(row, "mbs", 1);
  if (text(row, "mbs").empty()) assumptions.emplace_back("micro-batches of one sample");
  const double of_a_rank = static_cast<double>(number(row, "gbs", 1)) / layout.data;
  layout.accumulation =
      std::max<std::int64_t>(1, std::llround(of_a_rank / static_cast<double>(layout.micro_batch)));
  layout.zero = zero_stage(text(row, "sharding"));
  layout.recompute = recompute_of(text(row, "recompute"));
  layout.sequence =
      text(row, "recompute").ends_with("+SP") || (stack != nullptr && stack->sequence);
  layout.flash_attention = stack != nullptr && stack->flash > 0;
  if (layout.pipeline == 1) return layout;
  layout.keeps_gathered = layout.zero >= 2;  // arXiv:2407.21783, section 3.3.2
  const std::int64_t layers = number(row, "layers", 1);
  layout.chunks = static_cast<int>(number(row, "vp", 0));
  // Stacks that interleave and do not say how: layer by layer, which waits least.
  if (layout.chunks == 0 && stack != nullptr && stack->sequence) {
    layout.chunks = static_cast<int>((layers + layout.pipeline - 1) / layout.pipeline);
    assumptions.emplace_back("pipeline interleaved layer by layer");
  }
  layout.chunks = std::max(layout.chunks, 1);
  layout.schedule =
      layout.chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
  return layout;
}

const parallel::PrecisionRecipe* recipe_of(const PublishedRow& row) {
  // MosaicML's Composer reduces in fp32 unless told otherwise (mixed_precision DEFAULT).
  if (text(row, "software") == "llm-foundry FSDP") return parallel::find_recipe("amp");
  const std::string& precision = text(row, "precision");
  if (precision.empty() || begins(precision, "fp32")) return parallel::find_recipe("fp32");
  const auto* recipe = parallel::find_recipe(precision);
  if (recipe == nullptr) unreadable(row, "precision");
  return recipe;
}

/// "H100-80G 800Gbps": the network of a host, where the source printed it.
void read_network(const PublishedRow& row, Machine& machine) {
  static const std::regex pattern("([0-9]+) ?Gbps");
  std::smatch match;
  const std::string& note = text(row, "note");
  if (!std::regex_search(note, match, pattern)) return;
  machine.between.line_bytes_per_s = std::stod(match[1]) * 1e9 / 8 / machine.devices_per_host;
}

}  // namespace

std::vector<PublishedRow> read_published_rows(std::string_view csv) {
  std::vector<std::string> heading;
  std::vector<PublishedRow> rows;
  while (!csv.empty()) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::vector<std::string> fields = fields_of(line);
    if (heading.empty()) {
      heading = fields;
      continue;
    }
    if (fields.size() != heading.size()) {
      refuse(fields.front(), std::to_string(fields.size()) + " fields instead of " +
                                 std::to_string(heading.size()));
    }
    PublishedRow row;
    for (std::size_t i = 0; i < fields.size(); ++i) row[heading[i]] = fields[i];
    rows.push_back(std::move(row));
  }
  return rows;
}

PublishedRun plan_of(const PublishedRow& row) {
  PublishedRun run;
  run.id = text(row, "id");
  run.source = text(row, "source");
  run.device = text(row, "device");
  const DeviceModel* device = find_device(run.device);
  if (device == nullptr) unreadable(row, "device");
  const std::string& software = text(row, "software");
  run.stack = parallel::find_stack(software);
  if (run.stack == nullptr && software != "formula") {
    run.stack = &parallel::usual_stack(number(row, "tp", 1) * number(row, "pp", 1) > 1);
    run.assumptions.push_back("software as " + std::string(run.stack->name));
  }
  run.architecture = architecture_of_row(row);
  run.sequence = run.architecture.default_sequence;
  run.layout = layout_of(row, run.stack, run.assumptions);
  run.recipe = recipe_of(row);
  run.machine = usual_machine(*device, number(row, "n_dev", 1));
  read_network(row, run.machine);
  return run;
}

double measured_step_s(const PublishedRow& row, const PublishedRun& run) {
  if (const double seconds = measured(row, "iter_s"); seconds > 0) return seconds;
  const auto samples = static_cast<double>(number(row, "gbs", 1));
  const auto devices = static_cast<double>(number(row, "n_dev", 1));
  const auto s = static_cast<double>(run.sequence);
  if (const double tokens = measured(row, "tok_s_dev"); tokens > 0) {
    return samples * s / (tokens * devices);
  }
  const double tflops = measured(row, "tflops_dev");
  if (!(tflops > 0)) return 0;
  const model::Architecture& a = run.architecture;
  const auto l = static_cast<double>(a.layers);
  const auto h = static_cast<double>(a.width);
  const auto v = static_cast<double>(a.vocabulary > 0 ? a.vocabulary : kGpt2Vocabulary);
  const bool twice = run.layout.recompute == Recompute::full;
  const bool by_deepspeed =
      run.stack != nullptr && run.stack->name == "DeepSpeed on Fugaku";  // one formula for both
  double flops = (twice ? 96 : 72) * s * l * h * h *
                 (1 + s / (6 * h) + v / ((twice || by_deepspeed ? 16 : 12) * l * h));
  if (a.gated) {  // the same count with grouped queries and three matrices
    const auto kv = static_cast<double>(a.kv_heads * a.head_width);
    const double matrices = h * (2 * h + 2 * kv + 3 * static_cast<double>(a.feed_forward));
    flops = s * (6 * (l * matrices + v * h) + 12 * l * s * h);
  }
  return samples * flops / (tflops * 1e12 * devices);
}

bool is_unpredictable(const PublishedRow& row) {
  const std::string& note = text(row, "note");
  return note.find("memory limit") != std::string::npos ||
         note.find("out of memory") != std::string::npos;
}

}  // namespace lockstep::planner
