// lockstep ckpt list: the checkpoints of a run, whole or not.
#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <ostream>
#include <system_error>

#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/manifest.h"
#include "lockstep/checkpoint/tools/folder_kind.h"
#include "lockstep/checkpoint/tools/tags.h"
#include "lockstep/cli/ckpt_common.h"
#include "lockstep/cli/commands.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr std::array kFlags{
    Flag{.name = "--tags", .help = "also the tags of the registry; alone without DIR"},
    kRegistryFlag,
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep ckpt list runs/mnist", "every step, newest first, and whether it is whole"},
    {"lockstep ckpt list --tags", "the checkpoints that have a name"},
});

struct Row {
  fs::path path;
  std::int64_t step = 0;
  std::string why;  // it is not complete; empty = it is
  std::uint64_t bytes = 0;
  double age_s = 0;  // since its last file was written
  bool newest = false;
};

/// N of "step-N", ".step-N.tmp" and ".step-N.old".
std::optional<std::int64_t> step_of(std::string_view name) {
  const bool is_hidden = name.starts_with(".");
  if (is_hidden) {
    if (!name.ends_with(".tmp") && !name.ends_with(".old")) return std::nullopt;
    name = name.substr(1, name.size() - 5);
  }
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  const bool is_step = error == std::errc() && end == name.data() + name.size() && step >= 0;
  return is_step ? std::optional(step) : std::nullopt;
}

/// What a look at names and sizes tells; `ckpt verify` reads the bytes.
std::string why_incomplete(const fs::path& folder) {
  const std::string name = folder.filename().string();
  if (name.ends_with(".tmp")) return "being written, or left by a save that never ended";
  std::error_code error;
  if (name.ends_with(".old")) {
    const std::string successor = name.substr(1, name.size() - 5);
    if (fs::exists(folder.parent_path() / successor, error)) return "replaced by " + successor;
  }
  if (!fs::is_regular_file(folder / checkpoint::kManifestName, error)) {
    return "no manifest: its saving never ended";
  }
  try {
    for (const auto& [file, bytes] : checkpoint::read_manifest(folder).file_bytes) {
      const std::uint64_t now = fs::file_size(folder / file, error);
      if (error) return file + " is missing";
      if (now == bytes) continue;
      return file + " has " + bytes_text(now) + " instead of " + bytes_text(bytes);
    }
  } catch (const Error& fault) {
    return "damaged: " + fault.problems().front().what;
  }
  return "";
}

Row row_of(const fs::path& folder, std::int64_t step) {
  Row row{folder, step, why_incomplete(folder)};
  std::error_code error;
  fs::file_time_type last = fs::last_write_time(folder, error);
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    const std::uint64_t bytes = at->file_size(gone);
    if (gone) continue;
    row.bytes += bytes;
    last = std::max(last, at->last_write_time(gone));
  }
  const std::chrono::duration<double> age = fs::file_time_type::clock::now() - last;
  row.age_s = std::max(0.0, age.count());
  return row;
}

/// Newest first; of one step what is whole first.
std::vector<Row> rows_in(const fs::path& dir) {
  std::vector<Row> rows;
  std::error_code error;
  for (fs::directory_iterator at(dir, error), end; !error && at != end; at.increment(error)) {
    const auto step = step_of(at->path().filename().string());
    std::error_code gone;
    if (step && at->is_directory(gone)) rows.push_back(row_of(at->path(), *step));
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.step != b.step) return a.step > b.step;
    return a.why.empty() != b.why.empty() ? a.why.empty() : a.path < b.path;
  });
  const auto newest =
      std::find_if(rows.begin(), rows.end(), [](const Row& row) { return row.why.empty(); });
  if (newest != rows.end()) newest->newest = true;
  return rows;
}

/// \throws BadData (LS-5003) when there is not even a part of a checkpoint.
std::vector<Row> rows_of_run(const fs::path& given) {
  for (const fs::path& dir : {given / "checkpoints", given}) {
    std::vector<Row> rows = rows_in(dir);
    if (!rows.empty()) return rows;
  }
  const checkpoint::FolderKind found = checkpoint::folder_kind(given);
  if (found.kind == checkpoint::CheckpointKind::nothing) throw BadData(problem_of(found));
  throw BadData({"LS-5003", given.string(),
                 "is a checkpoint (" + format_of(found.kind) + "), not a folder of step-N",
                 "`lockstep ckpt inspect " + given.string() + "` shows what is in it"});
}

std::string table_of(const std::vector<Row>& rows, const Context& context) {
  TextTable table({{"step", true}, {"size", true}, {"age", true}, {"state"}, {"path"}});
  for (const Row& row : rows) {
    const std::string state = row.newest ? "complete, newest" : "complete";
    table.row({format_count(row.step), bytes_text(row.bytes), format_duration(row.age_s),
               row.why.empty() ? state : "incomplete: " + shown(row.why, context),
               shown(row.path.string(), context)});
  }
  return table.text(context);
}

std::string table_of(const std::vector<checkpoint::Tag>& tags, const Context& context) {
  TextTable table({{"tag"}, {"step", true}, {"format"}, {"created"}, {"metric"}, {"path"}});
  for (const checkpoint::Tag& tag : tags) {
    table.row({tag.name, tag.step ? format_count(*tag.step) : "-", shown(tag.format, context),
               shown(tag.created, context), shown(tag.metric, context),
               shown(tag.path.string(), context)});
  }
  return table.text(context);
}

ordered_json to_json(const Row& row) {
  ordered_json json{{"path", row.path.string()},   {"step", row.step},
                    {"complete", row.why.empty()}, {"bytes", row.bytes},
                    {"age_s", row.age_s},          {"newest", row.newest}};
  if (!row.why.empty()) json["why"] = row.why;
  return json;
}

std::vector<Problem> check(const Args& args, const Context&) {
  if (!args.words().empty() || args.has("--tags")) return {};
  return {{"LS-1021", "lockstep ckpt list", "needs to know where to look",
           "name a run directory, or a folder of step-N, or add --tags"}};
}

Exit run(const Args& args, const Context& context) {
  std::vector<Row> rows;
  checkpoint::TagRegistry::Listing listing;
  if (!args.words().empty()) rows = rows_of_run(args.words().front());
  if (args.has("--tags")) listing = checkpoint::TagRegistry(registry_of(args)).list();
  if (context.json) {
    ordered_json document{{"checkpoints", ordered_json::array()}, {"tags", ordered_json::array()}};
    for (const Row& row : rows) document["checkpoints"].push_back(to_json(row));
    for (const checkpoint::Tag& tag : listing.tags) {
      document["tags"].push_back(ordered_json::parse(checkpoint::write_tag(tag)));
    }
    if (!listing.problems.empty()) document["problems"] = problems_json(listing.problems);
    context.out << to_line(document) << std::endl;
    return exit_of(listing.problems);
  }
  if (!rows.empty()) context.out << table_of(rows, context);
  if (!rows.empty() && args.has("--tags")) context.out << "\n";
  if (!listing.tags.empty()) context.out << table_of(listing.tags, context);
  if (args.has("--tags") && listing.tags.empty()) {
    context.out << "no tags in " << registry_of(args).string() << "\n";
  }
  context.out << std::flush;
  context.err << to_text(listing.problems) << std::flush;
  return exit_of(listing.problems);
}

}  // namespace

Command ckpt_list_command() {
  return {.name = "ckpt list",
          .summary = "the checkpoints of a run: complete or not, step, size, age",
          .description =
              "Lists the folders step-N of a run, newest first. One is complete when its manifest "
              "can be read and every file that it names has the size it had; the newest complete "
              "one is what --resume auto takes. What a save left that never ended is shown as "
              "incomplete. No tensor is read: `lockstep ckpt verify` does that.",
          .examples = kExamples,
          .positional = {.name = "DIR", .help = "a run directory, or a folder of step-N"},
          .flags = kFlags,
          .json =
              "checkpoints (path, step, complete, bytes, age_s, newest, and why when one is not "
              "complete) and tags.",
          .run = run,
          .check = check};
}

}  // namespace lockstep::cli
