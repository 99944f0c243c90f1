#include "lockstep/starters/hostfile.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "lockstep/base/nearest.h"
#include "lockstep/config/convert.h"
#include "lockstep/launch/local_job.h"

namespace lockstep::starters {
namespace {

constexpr std::size_t kLongestName = 253;
constexpr std::size_t kLargestFile = 4 << 20;
constexpr std::size_t kMostProblems = 20;  // of one file: the rest is more of the same

/// As it is shown: short, and without what would move a terminal's cursor.
std::string shown(std::string_view text) {
  std::string word(text.substr(0, 64));
  std::replace_if(
      word.begin(), word.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return word;
}

struct Word {
  std::string_view text;
  std::size_t column = 1;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/// The words of a line up to its comment; '=' is a word of its own, so that blanks may stand around
/// it.
std::vector<Word> words_of(std::string_view line) {
  std::vector<Word> words;
  std::size_t at = 0;
  while (at < line.size() && line[at] != '#') {
    if (is_blank(line[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at;
    if (line[at] == '=') {
      ++at;
    } else {
      while (at < line.size() && !is_blank(line[at]) && line[at] != '=' && line[at] != '#') ++at;
    }
    words.push_back({line.substr(begin, at - begin), begin + 1});
  }
  return words;
}

/// Collects hosts and faults of one list.
class Reader {
 public:
  /// \param file named in messages; empty = the words of --hosts, which have no lines.
  explicit Reader(std::string file) : file_(std::move(file)) {}

  void read_line(std::string_view text, int line) {
    line_ = line;
    const std::vector<Word> words = words_of(text);
    if (words.empty()) return;
    std::optional<HostSlots> host = read_host(words.front());
    Settings settings;
    for (std::size_t i = 1; i < words.size();) i = read_setting(words, i, settings);
    if (!host) return;
    if (host->slots > 0 && settings.slots) {
      refuse(words[1].column, "slots are given twice for " + shown(host->name),
             "write HOST slots=N or HOST:N");
      return;
    }
    host->slots = settings.slots.value_or(host->slots);
    if (settings.max_slots && *settings.max_slots < host->slots) {
      refuse(words.front().column,
             "max_slots is " + std::to_string(*settings.max_slots) + ", less than slots " +
                 std::to_string(host->slots),
             "max_slots is the most ranks the host ever takes");
    }
    add(std::move(*host), words.front().column);
  }

  void add_item(std::string_view item) {
    if (auto host = read_host({item, 1})) add(std::move(*host), 1);
  }

  void refuse(std::size_t column, std::string what, std::string fix, const char* code = "LS-1041") {
    if (list_.problems.size() >= kMostProblems) return;
    const std::string where =
        file_.empty() ? "--hosts"
                      : file_ + ":" + std::to_string(line_) + ":" + std::to_string(column);
    list_.problems.push_back({code, where, std::move(what), std::move(fix)});
  }

  [[nodiscard]] HostList take() {
    if (list_.hosts.empty() && list_.problems.empty()) {
      list_.problems.push_back({"LS-1041", file_.empty() ? "--hosts" : file_, "names no host",
                                "a line a host, such as: node-a slots=4"});
    }
    return std::move(list_);
  }

 private:
  struct Settings {
    std::optional<int> slots;
    std::optional<int> max_slots;
  };

  [[nodiscard]] std::optional<int> read_slots(const Word& word, const std::string& key) {
    std::int64_t number = 0;
    if (config::read_integer(word.text, number) && number >= 1 &&
        number <= launch::kMostRanksOfAHost) {
      return static_cast<int>(number);
    }
    refuse(word.column, key + " is \"" + shown(word.text) + "\"",
           "it is a whole number from 1 to " + std::to_string(launch::kMostRanksOfAHost));
    return std::nullopt;
  }

  /// "HOST", "HOST:N", "[ADDRESS]:N"; an IPv6 address without brackets has no N.
  [[nodiscard]] std::optional<HostSlots> read_host(const Word& word) {
    std::string_view name = word.text;
    std::string_view slots;
    const std::size_t colon = name.rfind(':');
    if (name.starts_with('[')) {
      const std::size_t close = std::min(name.find(']'), name.size());
      const bool closed = close < name.size();
      slots = name.substr(std::min(close + 1, name.size()));
      name = name.substr(1, close - 1);
      if (!closed || (!slots.empty() && slots.front() != ':')) name = {};
    } else if (colon != std::string_view::npos && name.find(':') == colon) {
      slots = name.substr(colon);
      name = name.substr(0, colon);
    }
    if (!is_host_name(name)) {
      refuse(
          word.column, "\"" + shown(word.text) + "\" is no host",
          "a host is a name of letters, digits, '.', '-' and '_', or an address; a user, port or "
          "key for it belongs into ~/.ssh/config",
          "LS-1042");
      return std::nullopt;
    }
    HostSlots host{std::string(name)};
    if (slots.empty()) return host;
    const auto count =
        read_slots({slots.substr(1),
                    word.column + static_cast<std::size_t>(slots.data() - word.text.data()) + 1},
                   "the number of ranks");
    if (!count) return std::nullopt;
    host.slots = *count;
    return host;
  }

  /// Reads "KEY = VALUE" at `i`. \returns where the next one begins.
  std::size_t read_setting(const std::vector<Word>& words, std::size_t i, Settings& settings) {
    constexpr auto kKeys = std::to_array<std::string_view>({"slots", "max_slots", "max-slots"});
    const Word& key = words[i];
    const bool known = std::find(kKeys.begin(), kKeys.end(), key.text) != kKeys.end();
    const bool has_value = i + 2 < words.size() && words[i + 1].text == "=";
    if (!known) {
      refuse(key.column, "unknown key '" + shown(key.text) + "'",
             did_you_mean(key.text, kKeys, "the keys are slots and max_slots"));
    } else if (!has_value) {
      refuse(key.column, shown(key.text) + " has no value", "write " + shown(key.text) + "=N");
    } else {
      std::optional<int>& slot = key.text == "slots" ? settings.slots : settings.max_slots;
      if (slot) refuse(key.column, shown(key.text) + " stands twice", "leave one of the two");
      slot = read_slots(words[i + 2], std::string(key.text));
    }
    if (has_value) return i + 3;
    return i + (i + 1 < words.size() && words[i + 1].text == "=" ? 2 : 1);
  }

  void add(HostSlots host, std::size_t column) {
    const auto [first, is_new] = line_of_.emplace(host.name, line_);
    if (is_new) {
      list_.hosts.push_back(std::move(host));
      return;
    }
    refuse(column,
           "host " + host.name + " stands twice" +
               (file_.empty() ? "" : ", first on line " + std::to_string(first->second)),
           "name it once, with all its ranks: " + host.name + (file_.empty() ? ":N" : " slots=N"),
           "LS-1043");
  }

  std::string file_;
  int line_ = 0;
  std::map<std::string, int, std::less<>> line_of_;
  HostList list_;
};

}  // namespace

bool is_host_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName) return false;
  if (text.find(':') != std::string_view::npos) {
    if (text.find('\0') != std::string_view::npos) return false;  // inet_pton would stop there
    in6_addr bytes{};
    return ::inet_pton(AF_INET6, std::string(text).c_str(), &bytes) == 1;
  }
  return text.front() != '-' && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return (c < 0x80 && std::isalnum(c) != 0) || c == '.' || c == '-' || c == '_';
         });
}

HostList parse_hostfile(std::string_view text, const std::string& file) {
  Reader reader(file);
  for (int line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    reader.read_line(text.substr(0, end), line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.take();
}

std::vector<HostSlots> read_hostfile(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  if (in) {
    text.resize(kLargestFile + 1);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
  }
  if (!in.eof() || text.size() > kLargestFile) {  // not opened, a folder, or too large
    throw UsageError({{"LS-1001", file,
                       text.size() > kLargestFile ? "is larger than a hostfile can be"
                                                  : "the hostfile cannot be read",
                       "check the path; without --hostfile the ranks run on this host alone"}});
  }
  HostList list = parse_hostfile(text, file);
  if (!list.problems.empty()) throw UsageError(std::move(list.problems));
  return std::move(list.hosts);
}

HostList parse_host_list(std::string_view text) {
  Reader reader("");
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    reader.add_item(text.substr(0, end));
    if (end + 1 == text.size()) reader.add_item("");  // a comma at the end
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return reader.take();
}

}  // namespace lockstep::starters
