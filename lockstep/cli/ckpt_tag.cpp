// lockstep ckpt tag: names for checkpoints.
#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>

#include "lockstep/base/nearest.h"
#include "lockstep/base/units.h"
#include "lockstep/checkpoint/format/disk_fault.h"
#include "lockstep/checkpoint/tools/tags.h"
#include "lockstep/cli/ckpt_common.h"
#include "lockstep/cli/commands.h"

namespace lockstep::cli {
namespace {

using checkpoint::Tag;
using checkpoint::TagRegistry;
using nlohmann::ordered_json;

constexpr std::array kFlags{
    Flag{.name = "--run", .value = "TEXT", .help = "add: the run it comes from"},
    Flag{.name = "--metric", .value = "TEXT", .help = "add: what it reached, 'val_loss 2.31'"},
    Flag{.name = "--parent", .value = "TEXT", .help = "add: the tag or checkpoint it was made of"},
    Flag{.name = "--replace", .help = "add: also where the name is taken"},
    kRegistryFlag,
    kMaxHeaderFlag,
};

constexpr auto kExamples = std::to_array<Example>({
    {"lockstep ckpt tag add best runs/mnist/checkpoints/step-900 --metric 'accuracy 0.91'",
     "its files are hashed"},
    {"lockstep ckpt tag verify best", "whether the files are what they were"},
    {"lockstep ckpt tag list", "all tags"},
    {"lockstep ckpt tag remove best", "the name, not the checkpoint"},
});

std::optional<std::int64_t> step_of(const checkpoint::TensorSource& source) {
  const auto facts = source.facts();
  const auto step = facts.find("step");
  std::int64_t number = 0;
  if (step == facts.end()) return std::nullopt;
  const char* end = step->second.data() + step->second.size();
  const auto [stop, error] = std::from_chars(step->second.data(), end, number);
  const bool is_step = error == std::errc() && stop == end && number >= 0;
  return is_step ? std::optional(number) : std::nullopt;
}

std::uint64_t bytes_of(const Tag& tag) {
  std::uint64_t bytes = 0;
  for (const auto& [name, file] : tag.files) bytes += file.bytes;
  return bytes;
}

std::string files_text(const Tag& tag) {
  return counted(static_cast<std::int64_t>(tag.files.size()), "file") + ", " +
         bytes_text(bytes_of(tag));
}

void print_tag(const Tag& tag, const std::string& done, const Context& context) {
  if (context.json) {
    context.out << to_line(ordered_json::parse(write_tag(tag))) << std::endl;
  } else if (!context.quiet) {
    context.out << done << " " << tag.name << ": " << shown(tag.path.string(), context) << ", "
                << files_text(tag) << std::endl;
  }
}

Exit add(const Args& args, const Context& context) {
  const auto open = open_given(args, args.words()[2]);
  Tag tag;
  tag.name = args.words()[1];
  tag.path = open.path;
  tag.format = open.source->format();
  tag.step = step_of(*open.source);
  tag.run = args.text("--run");
  tag.metric = args.text("--metric");
  tag.parent = args.text("--parent");
  const auto registry = registry_of(args);
  try {
    const auto existing =
        args.has("--replace") ? TagRegistry::Existing::replace : TagRegistry::Existing::refuse;
    print_tag(TagRegistry(registry).add(std::move(tag), existing), "tagged", context);
  } catch (const std::filesystem::filesystem_error& error) {
    throw checkpoint::disk_fault(error, {registry});
  }
  return Exit::ok;
}

Exit list(const Args& args, const Context& context) {
  const auto listing = TagRegistry(registry_of(args)).list();
  if (context.json) {
    ordered_json tags = ordered_json::array();
    for (const Tag& tag : listing.tags) tags.push_back(ordered_json::parse(write_tag(tag)));
    context.out << to_line({{"tags", tags}, {"problems", problems_json(listing.problems)}})
                << std::endl;
    return exit_of(listing.problems);
  }
  TextTable table(
      {{"tag"}, {"step", true}, {"files"}, {"created"}, {"run"}, {"metric"}, {"parent"}, {"path"}});
  for (const Tag& tag : listing.tags) {
    table.row({tag.name, tag.step ? format_count(*tag.step) : "-", files_text(tag),
               shown(tag.created, context), shown(tag.run, context), shown(tag.metric, context),
               shown(tag.parent, context), shown(tag.path.string(), context)});
  }
  if (!table.empty()) context.out << table.text(context) << std::flush;
  if (table.empty() && !context.quiet) {
    context.out << "no tags in " << registry_of(args).string() << std::endl;
  }
  context.err << to_text(listing.problems) << std::flush;
  return exit_of(listing.problems);
}

Exit verify(const Args& args, const Context& context) {
  const Tag tag = TagRegistry(registry_of(args)).find(args.words()[1]);
  const std::vector<Problem> problems = verify_tag(tag);
  if (context.json) {
    context.out << to_line({{"ok", problems.empty()}, {"problems", problems_json(problems)}})
                << std::endl;
  } else {
    context.err << to_text(problems) << std::flush;
    if (problems.empty()) print_tag(tag, "unchanged:", context);
  }
  return exit_of(problems);
}

Exit remove(const Args& args, const Context& context) {
  const std::string& name = args.words()[1];
  TagRegistry(registry_of(args)).remove(name);
  if (context.json) {
    context.out << to_line({{"removed", name}}) << std::endl;
  } else if (!context.quiet) {
    context.out << "removed the tag " << name << "; its checkpoint is where it was" << std::endl;
  }
  return Exit::ok;
}

struct Action {
  std::string_view name;
  std::size_t words;  // with the name
  std::string_view usage;
  Exit (*run)(const Args& args, const Context& context);
};
constexpr auto kActions = std::to_array<Action>({
    {"add", 3, "lockstep ckpt tag add NAME PATH", add},
    {"list", 1, "lockstep ckpt tag list", list},
    {"verify", 2, "lockstep ckpt tag verify NAME", verify},
    {"remove", 2, "lockstep ckpt tag remove NAME", remove},
});

const Action* find_action(const Args& args) {
  if (args.words().empty()) return nullptr;
  const auto action = std::find_if(kActions.begin(), kActions.end(), [&](const Action& row) {
    return row.name == args.words().front();
  });
  return action == kActions.end() ? nullptr : &*action;
}

std::vector<Problem> check(const Args& args, const Context&) {
  std::vector<Problem> problems;
  check_size(args, kMaxHeaderFlag.name, problems);
  if (args.words().empty()) return problems;  // LS-1014 already
  const Action* action = find_action(args);
  if (action == nullptr) {
    std::vector<std::string_view> names;
    for (const Action& row : kActions) names.push_back(row.name);
    const std::string& given = args.words().front();
    problems.push_back({"LS-1021", "lockstep ckpt tag", "cannot " + given.substr(0, 128),
                        did_you_mean(given, names, "use one of: add, list, verify, remove")});
    return problems;
  }
  if (args.words().size() != action->words) {
    problems.push_back({"LS-1021", "lockstep ckpt tag",
                        std::string(action->name) + " takes " + std::to_string(action->words - 1) +
                            " words behind it, not " + std::to_string(args.words().size() - 1),
                        "write `" + std::string(action->usage) + "`"});
  }
  if (action->name == "add") return problems;
  for (const std::string_view flag : {"--run", "--metric", "--parent", "--replace"}) {
    if (!args.has(flag)) continue;
    problems.push_back({"LS-1021", std::string(flag),
                        "belongs to `ckpt tag add`, and this is " + std::string(action->name),
                        "leave it out"});
  }
  return problems;
}

Exit run(const Args& args, const Context& context) { return find_action(args)->run(args, context); }

}  // namespace

Command ckpt_tag_command() {
  return {
      .name = "ckpt tag",
      .summary = "names for checkpoints, with hashes of their files",
      .description =
          "add NAME PATH gives a checkpoint of any format a name in a registry: a folder with "
          "one small file a tag, which holds the place, the hash of each of its files, and what "
          "is said about it. list shows all, verify NAME compares the files with the hashes "
          "(exit code 4 when they changed), remove NAME takes the name away.",
      .examples = kExamples,
      .positional = {.name = "add|list|verify|remove",
                     .help = "add NAME PATH, list, verify NAME, remove NAME",
                     .at_least = 1,
                     .at_most = 3},
      .flags = kFlags,
      .json = "add: the tag; list: tags and problems; verify: ok and problems; remove: removed.",
      .run = run,
      .check = check};
}

}  // namespace lockstep::cli
