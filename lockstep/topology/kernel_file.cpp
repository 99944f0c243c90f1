#include "lockstep/topology/kernel_file.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json_fields.h"
#include "lockstep/base/sha256.h"
#include "lockstep/config/cache_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "lockstep kernels 1";
constexpr std::size_t kNameDigits = 16;
constexpr double kMost = 1e15;  // of a size or a time
constexpr auto kTypes = std::to_array<std::string_view>({"fp32", "bf16", "fp16"});

config::Dtype type_from(const JsonFields& fields) {
  const std::string name = fields.text("dtype");
  const auto found = std::find(kTypes.begin(), kTypes.end(), name);
  if (found == kTypes.end()) fields.fail("dtype is no known type");
  return static_cast<config::Dtype>(found - kTypes.begin());
}

Kernel kernel_from(const JsonFields& fields, const std::string& name) {
  const auto kernel = find_kernel(name);
  if (!kernel) fields.fail("no kernel has the name '" + name.substr(0, 64) + "'");
  return *kernel;
}

double number_in(const JsonFields& fields, const char* key, double least) {
  const double value = fields.number(key);
  if (!(value >= least && value <= kMost)) fields.fail(std::string(key) + " is out of range");
  return value;
}

Json json_of(const KernelPoint& point) {
  return {{"kernel", info_of(point.kernel).name},
          {"dtype", kTypes.at(static_cast<std::size_t>(point.type))},
          {"m", point.size[0]},
          {"n", point.size[1]},
          {"k", point.size[2]},
          {"forward_us", point.forward_s * 1e6},
          {"backward_us", point.backward_s * 1e6},
          {"backward_first_us", point.backward_first_s * 1e6}};
}

KernelPoint point_from(const JsonFields& fields) {
  KernelPoint point;
  point.kernel = kernel_from(fields, fields.text("kernel"));
  point.type = type_from(fields);
  point.size = {number_in(fields, "m", 1), number_in(fields, "n", 1), number_in(fields, "k", 1)};
  point.forward_s = number_in(fields, "forward_us", 0) * 1e-6;
  point.backward_s = number_in(fields, "backward_us", 0) * 1e-6;
  point.backward_first_s = number_in(fields, "backward_first_us", 0) * 1e-6;
  return point;
}

/// Reads the lines of to_file_text().
class RatesReader {
 public:
  explicit RatesReader(std::string file) : file_(std::move(file)) {}

  KernelRates read(const std::string& text) {
    std::istringstream lines(text);
    std::string line;
    if (!std::getline(lines, line) || line != kFormat) {
      fail("does not begin with '" + std::string(kFormat) + "'");
    }
    for (number_ = 2; std::getline(lines, line); ++number_) take(line);
    if (!has_end_) fail("is the last one, but no 'end': the file was cut short");
    check_complete();
    return std::move(rates_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BadData({"LS-6131", file_, "line " + std::to_string(number_) + " " + what,
                   "measure again with `lockstep plan --calibrate`, or remove the file"});
  }

  /// Plans ask for every kernel, of one rank at least.
  void check_complete() {
    std::sort(rates_.busy.begin(), rates_.busy.end(),
              [](const KernelPoints& a, const KernelPoints& b) { return a.ranks < b.ranks; });
    for (const KernelInfo& info : kernels()) {
      const bool is_there = points_of(rates_, info.kernel, 1, 1) != nullptr;
      if ((!is_there && !info.may_be_missing) || !has_fp32(info.kernel)) {
        fail("lacks fp32 points of " + std::string(info.name));
      }
    }
  }

  [[nodiscard]] bool has_fp32(Kernel kernel) const {
    for (const KernelPoints& busy : rates_.busy) {
      bool any = false;
      bool fp32 = false;
      for (const KernelPoint& point : busy.points) {
        any = any || point.kernel == kernel;
        fp32 = fp32 || (point.kernel == kernel && point.type == config::Dtype::fp32);
      }
      if (any && !fp32) return false;
    }
    return true;
  }

  void take(const std::string& line) {
    if (line == "end") return void(has_end_ = true);
    if (has_end_) fail("stands behind the end");
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) fail("is no name and value");
    const std::string name = line.substr(0, space);
    const std::string rest = line.substr(space + 1);
    if (name == "source") return void(rates_.source = rest);
    if (name == "cpu") return void(rates_.cpu_model = rest);
    std::istringstream words(rest);
    if (name == "cores") return void(rates_.cores = static_cast<int>(number(words, 1, kMostRanks)));
    if (name == "ranks") {
      rates_.busy.push_back({static_cast<int>(number(words, 1, kMostRanks)), {}});
    } else if (name == "all_reduce") {
      const double ranks = number(words, 2, kMostRanks);
      const double bytes = number(words, 0, kMost);
      rates_.exchange.push_back({static_cast<int>(ranks), static_cast<std::int64_t>(bytes),
                                 number(words, 0, kMost) * 1e-6});
    } else {
      take_point(name, words);
    }
  }

  void take_point(const std::string& name, std::istringstream& words) {
    const auto kernel = find_kernel(name);
    if (!kernel) fail("names no kernel: '" + name.substr(0, 64) + "'");
    if (rates_.busy.empty()) fail("is a point before any line of ranks");
    std::string type;
    words >> type;
    const auto found = std::find(kTypes.begin(), kTypes.end(), type);
    if (found == kTypes.end()) fail("names no type: '" + type.substr(0, 64) + "'");
    KernelPoint point;
    point.kernel = *kernel;
    point.type = static_cast<config::Dtype>(found - kTypes.begin());
    for (double& size : point.size) size = number(words, 1, kMost);
    point.forward_s = number(words, 0, kMost) * 1e-6;
    point.backward_s = number(words, 0, kMost) * 1e-6;
    point.backward_first_s = number(words, 0, kMost) * 1e-6;
    rates_.busy.back().points.push_back(point);
  }

  double number(std::istringstream& words, double least, double most) const {
    double value = 0;
    if (!(words >> value) || !(value >= least && value <= most)) {
      fail("has a number that is missing or out of range");
    }
    return value;
  }

  static constexpr double kMostRanks = 1e6;
  std::string file_;
  std::int64_t number_ = 1;
  bool has_end_ = false;
  KernelRates rates_;
};

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::string to_json_text(const KernelRequest& request) {
  Json json{{"kernels", Json::array()}, {"dtypes", Json::array()}};
  for (const Kernel kernel : request.kernels) {
    json["kernels"].push_back(info_of(kernel).name);
  }
  for (const config::Dtype type : request.types) {
    json["dtypes"].push_back(kTypes.at(static_cast<std::size_t>(type)));
  }
  json["seconds_a_point"] = request.seconds_a_point;
  json["few"] = request.few;
  return to_line(json);
}

KernelRequest kernel_request_from(const std::string& text) {
  const JsonFields fields(text, {"LS-7055", "request of bench kernels"});
  KernelRequest request;
  for (const std::string& name : fields.texts("kernels")) {
    request.kernels.push_back(kernel_from(fields, name));
  }
  for (const std::string& name : fields.texts("dtypes")) {
    const auto found = std::find(kTypes.begin(), kTypes.end(), name);
    if (found == kTypes.end()) fields.fail("dtypes holds an unknown type");
    request.types.push_back(static_cast<config::Dtype>(found - kTypes.begin()));
  }
  request.seconds_a_point = number_in(fields, "seconds_a_point", 0);
  request.few = fields.flag_or("few", false);
  return request;
}

std::string to_json_text(const KernelPoint& point) { return to_line(json_of(point)); }

KernelPoint kernel_point_from(const std::string& json) {
  return point_from(JsonFields(json, {"LS-7055", "point of bench kernels"}));
}

std::string to_json_text(const KernelRates& rates) {
  Json json{{"format", kFormat},    {"source", rates.source}, {"cpu_model", rates.cpu_model},
            {"cores", rates.cores}, {"busy", Json::array()},  {"exchange", Json::array()}};
  for (const KernelPoints& busy : rates.busy) {
    Json points = Json::array();
    for (const KernelPoint& point : busy.points) points.push_back(json_of(point));
    json["busy"].push_back({{"ranks", busy.ranks}, {"points", points}});
  }
  for (const ExchangePoint& point : rates.exchange) {
    json["exchange"].push_back(
        {{"ranks", point.ranks}, {"bytes", point.bytes}, {"us", point.seconds * 1e6}});
  }
  return to_line(json);
}

std::string to_file_text(const KernelRates& rates) {
  std::ostringstream text;
  text.precision(10);
  text << kFormat << "\nsource " << rates.source << "\ncpu " << rates.cpu_model << "\ncores "
       << rates.cores << "\n";
  for (const KernelPoints& busy : rates.busy) {
    text << "ranks " << busy.ranks << "\n";
    for (const KernelPoint& point : busy.points) {
      text << info_of(point.kernel).name << " " << kTypes.at(static_cast<std::size_t>(point.type));
      for (const double size : point.size) text << " " << size;
      for (const double s : {point.forward_s, point.backward_s, point.backward_first_s}) {
        text << " " << s * 1e6;
      }
      text << "\n";
    }
  }
  for (const ExchangePoint& point : rates.exchange) {
    text << "all_reduce " << point.ranks << " " << point.bytes << " " << point.seconds * 1e6
         << "\n";
  }
  text << "end\n";
  return text.str();
}

KernelRates rates_from(const std::string& text, const std::string& file) {
  return RatesReader(file).read(text);
}

std::string rates_file(const Host& host) {
  const fs::path folder = config::cache_folder();
  if (folder.empty()) return "";
  const std::string key = host.cpu_model + "|" + std::to_string(host.cores);
  return (folder / ("kernels-" + sha256_hex(key).substr(0, kNameDigits) + ".txt")).string();
}

namespace {

/// A file that will take the place of `file`. \throws EnvironmentFault.
void with_new_file(const std::string& file, const std::function<void(AtomicFile&)>& use) {
  try {
    fs::create_directories(fs::path(file).parent_path());
    AtomicFile out(file);
    use(out);
  } catch (const fs::filesystem_error& error) {
    throw EnvironmentFault({"LS-6132", file, "cannot be written: " + error.code().message(),
                            "set LOCKSTEP_CACHE to a folder that can be written"});
  }
}

}  // namespace

void require_rates_file(const std::string& file) {
  with_new_file(file, [](AtomicFile& /*out*/) {});  // not committed: nothing is left
}

void write_rates(const std::string& file, const KernelRates& rates) {
  with_new_file(file, [&](AtomicFile& out) {
    const std::string text = to_file_text(rates);
    out.write(std::as_bytes(std::span(text)));
    out.commit();
  });
}

std::optional<KernelRates> read_rates(const std::string& file) {
  std::error_code unknown;
  if (file.empty() || !fs::is_regular_file(file, unknown)) return std::nullopt;
  return rates_from(text_of(file), file);
}

}  // namespace lockstep
