// lockstep completion: the script that teaches a shell to complete lockstep's words.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>

#include "lockstep/base/nearest.h"
#include "lockstep/cli/commands.h"
#include "lockstep/cli/shell_scripts.h"

namespace lockstep::cli {
namespace {

constexpr auto kExamples = std::to_array<Example>({
    {"source <(lockstep completion bash)",
     "in this bash; for every bash, add the line to ~/.bashrc"},
    {"lockstep completion bash > ~/.local/share/bash-completion/completions/lockstep",
     "for every bash that has the package bash-completion"},
    {"lockstep completion zsh > ~/.zfunc/_lockstep",
     "for every zsh whose ~/.zshrc says `fpath+=~/.zfunc; autoload -Uz compinit; compinit`"},
    {"lockstep completion fish > ~/.config/fish/completions/lockstep.fish", "for every fish"},
});

Exit run(const Args& args, const Context& context) {
  const std::string& name = args.words().front();
  const auto scripts = shell_scripts();
  const auto script = std::find_if(scripts.begin(), scripts.end(),
                                   [&](const ShellScript& one) { return one.shell == name; });
  if (script == scripts.end()) {
    std::vector<std::string_view> shells;
    for (const ShellScript& one : scripts) shells.push_back(one.shell);
    throw UsageError({{"LS-1013", "lockstep completion", "there is none for " + name.substr(0, 128),
                       did_you_mean(name, shells, "use bash, zsh or fish")}});
  }
  if (context.json) {
    context.out << nlohmann::ordered_json{{"shell", name}, {"script", script->text}}.dump()
                << std::endl;
  } else {
    context.out << script->text << std::flush;
  }
  return Exit::ok;
}

}  // namespace

Command completion_command() {
  return {.name = "completion",
          .summary = "the script by which a shell completes commands, flags, keys and files",
          .description =
              "Prints a script for the shell that is named. It completes commands, flags, their "
              "values, files where a file is taken, keys and words of --set (those that RUN.toml "
              "reads), and the names that help explains. The script asks lockstep itself, which "
              "answers in milliseconds, so it stays true when lockstep is replaced by a newer one. "
              "`make install` puts all three where the shells look for them.",
          .examples = kExamples,
          .positional = {.name = "bash|zsh|fish", .help = "the shell", .at_least = 1},
          .json = "shell and script.",
          .run = run};
}

}  // namespace lockstep::cli
