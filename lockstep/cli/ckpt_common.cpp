#include "lockstep/cli/ckpt_common.h"

#include <algorithm>
#include <ostream>

#include "lockstep/base/units.h"
#include "lockstep/config/cache_folder.h"
#include "lockstep/metrics/text_style.h"

namespace lockstep::cli {
namespace {

using metrics::TextStyle;
using nlohmann::ordered_json;

constexpr double kShownEvery_s = 0.1;

std::size_t width_of(const std::vector<std::string>& row, std::size_t column) {
  return column < row.size() ? metrics::columns(row[column]) : 0;
}

}  // namespace

void check_size(const Args& args, std::string_view flag, std::vector<Problem>& problems) {
  if (!args.has(flag)) return;
  const std::string value = args.text(flag);
  const auto bytes = parse_bytes(value);
  if (bytes && *bytes > 0) return;
  problems.push_back({"LS-1013", std::string(flag), "not a size above 0: " + value.substr(0, 128),
                      "write bytes as 4096, 500MB or 5GB"});
}

std::optional<std::uint64_t> size_of(const Args& args, std::string_view flag) {
  if (!args.has(flag)) return std::nullopt;
  return static_cast<std::uint64_t>(parse_bytes(args.text(flag)).value_or(0));
}

checkpoint::OpenCheckpoint open_given(const Args& args, const std::string& path) {
  checkpoint::OpenOptions options;
  if (const auto most = size_of(args, kMaxHeaderFlag.name)) options.max_header_bytes = *most;
  return checkpoint::open_checkpoint(path, options);
}

std::string TextTable::text(const Context& context) const {
  std::vector<std::vector<std::string>> lines;
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title);
  lines.push_back(std::move(titles));
  lines.insert(lines.end(), rows_.begin(), rows_.end());
  std::vector<std::size_t> widths(columns_.size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i)
      widths[i] = std::max(widths[i], width_of(line, i));
  }
  const TextStyle style{context.color, context.utf8};
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i) {
      row += i == 0 ? "" : "  ";
      row += columns_[i].is_right ? metrics::pad_left(line[i], widths[i])
                                  : metrics::pad_right(line[i], widths[i]);
    }
    row.resize(row.find_last_not_of(' ') + 1);
    text += (&line == lines.data() ? style.paint(metrics::Tone::faint, row) : row) + "\n";
  }
  return text;
}

WorkLine::WorkLine(const Context& context, std::string what)
    : err_(context.err),
      is_live_(context.out_is_terminal && !context.json && !context.quiet),
      what_(std::move(what)) {}

WorkLine::~WorkLine() {
  if (is_drawn_) err_ << "\r\x1b[K" << std::flush;
}

void WorkLine::show(std::uint64_t bytes_done, std::uint64_t bytes_all) {
  const double now_s = watch_.elapsed_s();
  if (!is_live_ || now_s - shown_s_ < kShownEvery_s || bytes_done == 0) return;
  shown_s_ = now_s;
  is_drawn_ = true;
  const auto left = static_cast<double>(bytes_all - std::min(bytes_done, bytes_all));
  err_ << "\r\x1b[K" << what_ << ": " << bytes_text(bytes_done) << " of " << bytes_text(bytes_all)
       << ", " << rate_text(bytes_done, now_s) << ", "
       << format_duration(now_s / static_cast<double>(bytes_done) * left) << " left" << std::flush;
}

std::string shown(std::string_view text, const Context& context) {
  return metrics::printable(text, context.utf8);
}

std::string bytes_text(std::uint64_t bytes) {
  return format_bytes(static_cast<std::int64_t>(std::min<std::uint64_t>(bytes, INT64_MAX)));
}

std::string rate_text(std::uint64_t bytes, double seconds) {
  if (seconds <= 0) return "?";
  const double rate = std::min(static_cast<double>(bytes) / seconds, 9e18);
  return format_bytes(static_cast<std::int64_t>(rate)) + "/s";
}

std::string to_line(const ordered_json& document) {
  return document.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json problems_json(const std::vector<Problem>& problems) {
  ordered_json list = ordered_json::array();
  for (const Problem& problem : problems) {
    list.push_back({{"code", problem.code},
                    {"where", problem.where},
                    {"what", problem.what},
                    {"fix", problem.fix}});
  }
  return list;
}

bool is_named(std::string_view name, std::string_view pattern) {
  if (pattern.find_first_of("*?") == pattern.npos) return name.find(pattern) != name.npos;
  std::size_t at = 0;    // in name
  std::size_t next = 0;  // in pattern
  std::size_t star = pattern.npos;
  std::size_t from = 0;  // where the part behind the last star was tried
  while (at < name.size()) {
    if (next < pattern.size() && pattern[next] == '*') {
      star = next++;
      from = at;
    } else if (next < pattern.size() && (pattern[next] == '?' || pattern[next] == name[at])) {
      ++next;
      ++at;
    } else if (star != pattern.npos) {
      next = star + 1;
      at = ++from;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', next) == pattern.npos;
}

std::uint64_t elements_of(const checkpoint::Shape& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t length : shape) elements *= static_cast<std::uint64_t>(length);
  return elements;
}

Exit exit_of(const std::vector<Problem>& problems) {
  if (problems.empty()) return Exit::ok;
  const bool is_disk = std::all_of(problems.begin(), problems.end(), [](const Problem& problem) {
    return problem.code == "LS-5001" || problem.code == "LS-5002";
  });
  return is_disk ? Exit::environment : Exit::bad_data;
}

void note(const Context& context, std::string_view kind, const std::string& text) {
  if (context.quiet && kind != "warning") return;
  const TextStyle style{context.color, context.utf8};
  const auto tone = kind == "warning" ? metrics::Tone::warning : metrics::Tone::faint;
  context.err << style.paint(tone, std::string(kind) + ":") << " " << shown(text, context)
              << std::endl;
}

std::filesystem::path registry_of(const Args& args) {
  const std::string folder = args.text(kRegistryFlag.name, config::tags_folder());
  if (!folder.empty()) return folder;
  throw EnvironmentFault({"LS-5016", "lockstep ckpt", "there is no folder for tags",
                          "name one with --registry, or set LOCKSTEP_TAGS or HOME"});
}

}  // namespace lockstep::cli
