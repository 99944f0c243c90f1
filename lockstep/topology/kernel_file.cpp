#include "lockstep/topology/kernel_file.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "lockstep/base/atomic_file.h"
#include "lockstep/base/error.h"
#include "lockstep/base/json_fields.h"
#include "lockstep/base/sha256.h"

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

std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  return value == nullptr ? "" : value;
}

fs::path cache_folder() {
  if (const std::string own = environment("LOCKSTEP_CACHE"); !own.empty()) return own;
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) {
    return fs::path(xdg) / "lockstep";
  }
  const std::string home = environment("HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".cache" / "lockstep";
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

KernelRates rates_from(const std::string& json, const std::string& file) {
  const JsonFields fields(json, {"LS-6131", file});
  if (fields.text("format") != kFormat) fields.fail("format is not '" + std::string(kFormat) + "'");
  KernelRates rates;
  rates.source = fields.text("source");
  rates.cpu_model = fields.text("cpu_model");
  rates.cores = static_cast<int>(number_in(fields, "cores", 0));
  for (const JsonFields& busy : fields.objects("busy")) {
    KernelPoints points{static_cast<int>(number_in(busy, "ranks", 1)), {}};
    for (const JsonFields& point : busy.objects("points")) {
      points.points.push_back(point_from(point));
    }
    if (points.points.empty()) fields.fail("busy holds no points");
    rates.busy.push_back(std::move(points));
  }
  if (rates.busy.empty()) fields.fail("busy is empty");
  for (const JsonFields& point : fields.objects("exchange")) {
    rates.exchange.push_back({static_cast<int>(number_in(point, "ranks", 2)),
                              static_cast<std::int64_t>(number_in(point, "bytes", 0)),
                              number_in(point, "us", 0) * 1e-6});
  }
  return rates;
}

std::string rates_file(const Host& host) {
  const fs::path folder = cache_folder();
  if (folder.empty()) return "";
  const std::string key = host.cpu_model + "|" + std::to_string(host.cores);
  return (folder / ("kernels-" + sha256_hex(key).substr(0, kNameDigits) + ".json")).string();
}

void write_rates(const std::string& file, const KernelRates& rates) {
  try {
    fs::create_directories(fs::path(file).parent_path());
    AtomicFile out(file);
    const std::string text = to_json_text(rates) + "\n";
    out.write(std::as_bytes(std::span(text)));
    out.commit();
  } catch (const fs::filesystem_error& error) {
    throw EnvironmentFault({"LS-6132", file, "cannot be written: " + error.code().message(),
                            "set LOCKSTEP_CACHE to a folder that can be written"});
  }
}

std::optional<KernelRates> read_rates(const std::string& file) {
  std::error_code unknown;
  if (file.empty() || !fs::is_regular_file(file, unknown)) return std::nullopt;
  return rates_from(text_of(file), file);
}

}  // namespace lockstep
