#include "lockstep/cli/launch_shown.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "lockstep/base/json_fields.h"
#include "lockstep/base/shell_word.h"
#include "lockstep/launch/affinity.h"

namespace lockstep::cli {
namespace {

using Variables = std::vector<std::pair<std::string, std::string>>;

std::pair<std::string, std::string> split_variable(const std::string& text) {
  const std::size_t equals = text.find('=');
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Variables changed(const launch::RankStart& start, const Context& context) {
  Variables list;
  for (const std::string& entry : start.environment) {
    auto [key, value] = split_variable(entry);
    const char* own = context.get_env ? context.get_env(key.c_str()) : nullptr;
    if (key == "MASTER_PORT" && value == "0") value = "(a free one)";
    if (own == nullptr || value != own) list.emplace_back(key, value);
  }
  return list;
}

void print_text(const ShownHost& host, const Context& context) {
  if (!host.command.empty()) {
    context.out << "on " << host.host << ", in " << host.folder << "\n  "
                << shell_line(host.command) << '\n';
  }
  for (const std::string& entry : host.environment) {
    const auto variable = split_variable(entry);
    if (variable.second.empty()) continue;  // of a launch: what the host itself may say is not read
    context.out << "    " << variable.first << '=' << shell_word(variable.second) << '\n';
  }
  for (const launch::RankStart& start : host.ranks) {
    context.out << "rank " << start.rank << " on " << host.host << "\n  " << shell_line(start.argv)
                << '\n';
    if (!start.cpus.empty()) {
      context.out << "  on cores " << launch::cpu_list_text(start.cpus) << '\n';
    }
    for (const auto& [key, value] : changed(start, context)) {
      context.out << "    " << key << '=' << shell_word(value) << '\n';
    }
  }
}

nlohmann::ordered_json to_json(const ShownHost& host, const Context& context) {
  nlohmann::ordered_json shown{{"host", host.host}};
  if (!host.command.empty()) {
    nlohmann::ordered_json environment = nlohmann::ordered_json::object();
    for (const std::string& entry : host.environment) {
      const auto variable = split_variable(entry);
      environment[variable.first] = variable.second;
    }
    shown["command"] = host.command;
    shown["folder"] = host.folder;
    shown["environment"] = std::move(environment);
  }
  shown["ranks"] = nlohmann::ordered_json::array();
  for (const launch::RankStart& start : host.ranks) {
    nlohmann::ordered_json environment = nlohmann::ordered_json::object();
    for (const auto& [key, value] : changed(start, context)) environment[key] = value;
    shown["ranks"].push_back({{"rank", start.rank},
                              {"local_rank", start.local_rank},
                              {"command", start.argv},
                              {"cores", start.cpus},
                              {"environment", std::move(environment)}});
  }
  return shown;
}

}  // namespace

void show_hosts(const std::vector<ShownHost>& hosts, const Context& context) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ShownHost& host : hosts) {
    context.json ? list.push_back(to_json(host, context)) : print_text(host, context);
  }
  if (context.json) context.out << to_line({{"hosts", std::move(list)}}) << '\n';
  context.out << std::flush;
}

}  // namespace lockstep::cli
