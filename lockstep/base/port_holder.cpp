#include "lockstep/base/port_holder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <system_error>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kCommandBytes = 80;

/// Inode of the socket bound to `port` in a table of proc(5), "" when none.
std::string bound_inode(const char* table, int port, bool listening) {
  std::ifstream in(table);
  std::string line;
  std::getline(in, line);  // column titles
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state, skip, inode;
    fields >> slot >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skip;  // queues, timer, retransmits, uid, timeout
    fields >> inode;
    const auto colon = local.rfind(':');
    int found = -1;
    if (colon == std::string::npos || inode.empty() || inode == "0") continue;
    std::from_chars(local.data() + colon + 1, local.data() + local.size(), found, 16);
    if (found == port && (!listening || state == "0A")) return inode;
  }
  return {};
}

bool holds_socket(const fs::path& process, const std::string& link_text) {
  std::error_code error;
  for (const auto& fd : fs::directory_iterator(process / "fd", error)) {
    if (fs::read_symlink(fd.path(), error) == link_text) return true;
  }
  return false;
}

int process_with_socket(const std::string& inode) {
  const std::string link_text = "socket:[" + inode + "]";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    const auto [end, status] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (status != std::errc() || end != name.data() + name.size()) continue;
    if (holds_socket(entry.path(), link_text)) return pid;
  }
  return 0;
}

}  // namespace

std::string process_text(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/cmdline");
  std::string command{std::istreambuf_iterator<char>(in), {}};
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace_if(
      command.begin(), command.end(), [](unsigned char c) { return c < ' '; }, ' ');
  if (command.size() > kCommandBytes) {
    command.resize(kCommandBytes);
    command += "...";
  }
  std::string text = "pid " + std::to_string(pid);
  if (!command.empty()) text += " (" + command + ")";
  return text;
}

int port_holder_pid(int port) {
  for (const bool listening : {true, false}) {
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
      const std::string inode = bound_inode(table, port, listening);
      const int pid = inode.empty() ? 0 : process_with_socket(inode);
      if (pid > 0) return pid;
    }
  }
  return 0;
}

std::string port_holder(int port) {
  const int pid = port_holder_pid(port);
  return pid > 0 ? process_text(pid) : std::string();
}

}  // namespace lockstep
