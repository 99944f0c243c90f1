#include "lockstep/checkpoint/foreign/deepspeed_files.h"

#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "lockstep/base/error.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/foreign/misfit.h"
#include "lockstep/checkpoint/format/input_file.h"

namespace lockstep::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxTagBytes = 4096;
constexpr std::size_t kMaxNamed = 8;  // of missing ranks, in a message

using ByRank = std::map<std::uint32_t, fs::path>;

/// The folder that `latest` names, or `dir` itself.
fs::path tag_folder(const fs::path& dir) {
  const fs::path latest = dir / "latest";
  std::error_code error;
  if (!fs::is_regular_file(latest, error)) return dir;
  std::string tag = read_text_file(latest, kMaxTagBytes);
  tag.erase(tag.find_last_not_of(" \t\r\n") + 1);
  tag.erase(0, tag.find_first_not_of(" \t\r\n"));
  const bool is_name = !tag.empty() && tag != "." && tag != ".." && tag.find('/') == tag.npos &&
                       tag.find('\0') == tag.npos;
  if (!is_name) {
    throw_misfit(latest.string(), "it should hold the name of a folder beside it",
                 "name the folder of one checkpoint itself");
  }
  if (!fs::is_directory(dir / tag, error)) {
    throw_misfit(latest.string(), "it names " + tag + ", which is no folder beside it",
                 "copy that folder too, or name another one itself");
  }
  return dir / tag;
}

std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

struct RankName {
  std::uint32_t data_rank = 0;
  std::uint32_t model_rank = 0;
};

/// "[bf16_|fp16_]zero_pp_rank_<data>_mp_rank_<model><ending>".
std::optional<RankName> zero_name(std::string_view name, std::string_view ending) {
  if (!take(name, "bf16_")) take(name, "fp16_");
  if (!take(name, "zero_pp_rank_")) return std::nullopt;
  const auto data = take_number(name);
  if (!data || !take(name, "_mp_rank_")) return std::nullopt;
  const auto model = take_number(name);
  if (!model || name != ending) return std::nullopt;
  return RankName{*data, *model};
}

/// "mp_rank_<model>_model_states.pt".
std::optional<RankName> model_name(std::string_view name) {
  if (!take(name, "mp_rank_")) return std::nullopt;
  const auto model = take_number(name);
  if (!model || name != "_model_states.pt") return std::nullopt;
  return RankName{0, *model};
}

class Finder {
 public:
  explicit Finder(fs::path folder) : folder_(std::move(folder)) {}

  DeepSpeedFiles files() {
    std::error_code error;
    for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
         entry.increment(error)) {
      note(entry->path());
    }
    if (error) {
      throw EnvironmentFault({"LS-5002", folder_.string(), "cannot be listed: " + error.message(),
                              "check its permissions and the disk"});
    }
    if (optimizer_.empty()) fail_without_optimizer();
    if (whole_.empty() && model_.empty()) {
      throw_misfit(folder_.string(), "there is no *mp_rank_00_model_states.pt");
    }
    return {folder_, in_order(optimizer_, "_optim_states.pt"),
            whole_.empty() ? in_order(model_, "_model_states.pt")
                           : in_order(whole_, "_model_states.pt")};
  }

 private:
  void note(const fs::path& path) {
    const std::string name = path.filename().string();
    if (const auto rank = zero_name(name, "_optim_states.pt")) return add(optimizer_, *rank, path);
    if (const auto rank = zero_name(name, "_model_states.pt")) return add(model_, *rank, path);
    if (const auto rank = model_name(name)) return add(whole_, *rank, path);
    const bool is_states = name.ends_with("_states.pt");
    if (is_states && name.find("expert") != name.npos) refuse(path, "experts");
    if (is_states && name.starts_with("layer_")) refuse(path, "stages of a pipeline");
  }

  [[noreturn]] static void refuse(const fs::path& path, const std::string& what) {
    throw_misfit(path.string(), "it holds " + what + " of a model that is spread over ranks",
                 "merge it with DeepSpeed's ds_to_universal.py");
  }

  static void add(ByRank& files, const RankName& rank, const fs::path& path) {
    if (rank.model_rank != 0) refuse(path, "parts of tensors");
    const auto [known, is_new] = files.emplace(rank.data_rank, path);
    if (!is_new) {
      throw_misfit(path.string(), "beside it is " + known->second.filename().string() +
                                      ", of the same rank: two checkpoints in one folder");
    }
  }

  [[noreturn]] void fail_without_optimizer() const {
    const bool is_plain = !whole_.empty();
    throw_misfit(folder_.string(),
                 "there is no *_optim_states.pt, which has the weights in full precision",
                 is_plain ? "convert " + whole_.begin()->second.string() +
                                " itself: without ZeRO it holds the whole model"
                          : "copy the whole folder again from where it was written");
  }

  /// [rank], when none is missing below the highest.
  [[nodiscard]] std::vector<fs::path> in_order(const ByRank& files,
                                               const std::string& ending) const {
    std::vector<fs::path> paths;
    std::string missing;
    std::size_t missing_count = 0;
    std::uint32_t next = 0;
    for (const auto& [rank, path] : files) {
      for (; next < rank && missing_count < kMaxNamed; ++next, ++missing_count) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(next);
      }
      next = rank + 1;
      paths.push_back(path);
    }
    if (missing.empty()) return paths;
    throw_misfit(folder_.string(), "files *" + ending + " are missing, of rank " + missing);
  }

  fs::path folder_;
  ByRank optimizer_;
  ByRank model_;
  ByRank whole_;
};

}  // namespace

DeepSpeedFiles find_deepspeed_files(const fs::path& dir) { return Finder(tag_folder(dir)).files(); }

const PickleGlobals& deepspeed_globals() {
  static const PickleGlobals kGlobals{
      {"deepspeed.runtime.zero.config.ZeroStageEnum"},
      {"deepspeed.ops.adam.fused_adam.FusedAdam",
       "deepspeed.runtime.base_optimizer.DeepSpeedOptimizer",
       "deepspeed.runtime.config.DeepSpeedConfig",
       "deepspeed.runtime.config_utils.ScientificNotationEncoder",
       "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
       "deepspeed.runtime.fp16.loss_scaler.LossScaler",
       "deepspeed.runtime.zero.config.DeepSpeedZeroConfig",
       "deepspeed.runtime.zero.offload_config.DeepSpeedZeroOffloadOptimizerConfig",
       "deepspeed.runtime.zero.offload_config.DeepSpeedZeroOffloadParamConfig",
       "deepspeed.runtime.zero.offload_config.OffloadDeviceEnum",
       "deepspeed.utils.tensor_fragment.fragment_address",
       "deepspeed.utils.tensor_fragment.tensor_fragment"}};
  return kGlobals;
}

}  // namespace lockstep::checkpoint
