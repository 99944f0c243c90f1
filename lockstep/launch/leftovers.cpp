#include "lockstep/launch/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "lockstep/base/shell_word.h"
#include "lockstep/base/units.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

constexpr std::string_view kRunId = "TORCHELASTIC_RUN_ID=";
constexpr std::size_t kMostShown = 100;  // of a command

/// What /proc/PID/stat says (proc(5)).
struct Stat {
  int parent = 0;
  std::string name;
  char state = ' ';
  double started_s = 0;  // since the machine's start
};

std::optional<Stat> read_stat(const std::string& folder) {
  const std::string text = read_small_file(folder + "/stat");
  const std::size_t open = text.find('(');
  const std::size_t close = text.rfind(')');  // the name may hold anything
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  const auto fields = split(trim(std::string_view(text).substr(close + 1)), ' ');
  constexpr std::size_t kStart = 19;  // the 22nd field, counted from the state, the third
  if (fields.size() <= kStart) return std::nullopt;
  Stat stat;
  stat.name = text.substr(open + 1, close - open - 1);
  stat.state = fields[0].empty() ? ' ' : fields[0].front();
  stat.parent = static_cast<int>(std::strtol(fields[1].c_str(), nullptr, 10));
  stat.started_s =
      std::strtod(fields[kStart].c_str(), nullptr) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return stat;
}

class Search {
 public:
  explicit Search(std::string proc)
      : proc_(std::move(proc)),
        up_s_(std::strtod(read_small_file(proc_ + "/uptime").c_str(), nullptr)) {}

  std::vector<Leftover> run() {
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(proc_.c_str()), ::closedir);
    if (folder == nullptr) return {};
    while (const dirent* entry = ::readdir(folder.get())) {
      const std::string_view name = entry->d_name;
      int pid = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
      if (error != std::errc() || end != name.data() + name.size()) continue;
      struct stat owner {};
      if (::fstatat(::dirfd(folder.get()), entry->d_name, &owner, 0) != 0) continue;
      if (owner.st_uid == ::geteuid()) look_at(pid);
    }
    std::sort(found_.begin(), found_.end(),
              [](const Leftover& a, const Leftover& b) { return a.pid < b.pid; });
    return std::move(found_);
  }

 private:
  [[nodiscard]] std::string folder_of(int pid) const { return proc_ + "/" + std::to_string(pid); }

  void look_at(int pid) {
    const auto stat = read_stat(folder_of(pid));
    if (!stat || stat->state == 'Z' || !takes_in_orphans(stat->parent)) return;
    const std::string environment = read_small_file(folder_of(pid) + "/environ");
    for (std::size_t at = 0; at < environment.size();) {
      const std::size_t end = std::min(environment.find('\0', at), environment.size());
      const std::string_view variable = std::string_view(environment).substr(at, end - at);
      if (variable.starts_with(kRunId)) {
        found_.push_back({pid, command_of(pid, stat->name),
                          std::string(variable.substr(kRunId.size())),
                          std::max(0.0, up_s_ - stat->started_s)});
        return;
      }
      at = end + 1;
    }
  }

  [[nodiscard]] std::string command_of(int pid, const std::string& name) const {
    std::string text;
    for (const std::string& word : split(read_small_file(folder_of(pid) + "/cmdline"), '\0')) {
      if (!word.empty()) text += (text.empty() ? "" : " ") + shell_word(word);
    }
    if (text.empty()) text = name;
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
    return text.size() > kMostShown ? text.substr(0, kMostShown) + "..." : text;
  }

  /// In a container the first process may be the launcher of the job.
  bool takes_in_orphans(int pid) {
    const auto known = reapers_.find(pid);
    if (known != reapers_.end()) return known->second;
    return reapers_[pid] = is_reaper(pid);
  }

  [[nodiscard]] bool is_reaper(int pid) const {
    constexpr auto kManagers = std::to_array<std::string_view>(
        {"systemd", "init", "tini", "dumb-init", "docker-init", "catatonit", "runit"});
    const auto stat = read_stat(folder_of(pid));
    if (!stat) return false;
    const bool is_manager =
        std::find(kManagers.begin(), kManagers.end(), stat->name) != kManagers.end();
    if (pid != 1 && !is_manager) return false;
    const auto words = split(read_small_file(folder_of(pid) + "/cmdline"), '\0');
    constexpr std::size_t kLooked = 4;  // "python3 -u -m torch.distributed.run"
    return std::none_of(words.begin(), words.begin() + std::min(kLooked, words.size()),
                        is_launcher);
  }

  static bool is_launcher(const std::string& word) {
    const std::string name = word.substr(word.rfind('/') + 1);
    return name == "torchrun" || name == "lockstep" || name.starts_with("torch.distributed");
  }

  std::string proc_;
  double up_s_;
  std::map<int, bool> reapers_;
  std::vector<Leftover> found_;
};

}  // namespace

std::vector<Leftover> find_leftovers(const std::string& proc) { return Search(proc).run(); }

std::string to_text(const Leftover& leftover) {
  return "left over from an earlier job: process " + std::to_string(leftover.pid) + ", " +
         leftover.command + ", started " + format_duration(leftover.age_s) + " ago by run " +
         shell_word(leftover.run_id) + "; `kill " + std::to_string(leftover.pid) + "` ends it";
}

}  // namespace lockstep::launch
