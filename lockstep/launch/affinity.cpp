#include "lockstep/launch/affinity.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/topology/proc_text.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;
using Cpus = std::vector<int>;  // ascending

/// Items `place` of `count` equal parts of `list`; the first parts are one longer where it does not
/// divide.
template <typename Item>
std::vector<Item> part_of(const std::vector<Item>& list, std::size_t place, std::size_t count) {
  const std::size_t each = list.size() / count;
  const std::size_t longer = list.size() % count;
  const std::size_t first = place * each + std::min(place, longer);
  const std::size_t end = first + each + (place < longer ? 1 : 0);
  return {list.begin() + static_cast<std::ptrdiff_t>(first),
          list.begin() + static_cast<std::ptrdiff_t>(end)};
}

class Machine {
 public:
  explicit Machine(std::string root) : root_(std::move(root)) {
    allowed_ =
        parse_cpu_list(field(read_small_file(root_ + "/proc/self/status"), "Cpus_allowed_list:"));
    for (const int id : parse_cpu_list(read_small_file(root_ + kNodes + "online"))) {
      Cpus cpus = allowed_only(parse_cpu_list(
          read_small_file(root_ + kNodes + "node" + std::to_string(id) + "/cpulist")));
      if (!cpus.empty()) nodes_[id] = std::move(cpus);
    }
    if (nodes_.empty()) nodes_[0] = allowed_;
    read_gpus();
  }

  [[nodiscard]] const Cpus& allowed() const { return allowed_; }
  [[nodiscard]] const Cpus& cpus_of_node(int node) const { return nodes_.at(node); }

  /// The NUMA node of each rank: that of its GPU, or one of all in turn.
  [[nodiscard]] std::vector<int> nodes_of_ranks(int ranks) const {
    std::vector<int> ids;
    for (const auto& [id, cpus] : nodes_) ids.push_back(id);
    std::vector<int> list;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto place = static_cast<std::size_t>(rank);
      const int of_gpu = place < gpu_nodes_.size() ? gpu_nodes_[place] : -1;
      const auto in_turn = ids[place * ids.size() / static_cast<std::size_t>(ranks)];
      list.push_back(nodes_.contains(of_gpu) ? of_gpu : in_turn);
    }
    return list;
  }

  /// All cores of the nodes that share the node's socket.
  [[nodiscard]] Cpus cpus_of_socket(int node) const {
    const std::string socket = socket_of(cpus_of_node(node).front());
    Cpus cpus;
    for (const auto& [id, of_node] : nodes_) {
      if (socket_of(of_node.front()) == socket)
        cpus.insert(cpus.end(), of_node.begin(), of_node.end());
    }
    std::sort(cpus.begin(), cpus.end());
    return cpus;
  }

  /// `cpus` by physical core; processors of one core stay together.
  [[nodiscard]] std::vector<Cpus> cores(const Cpus& cpus) const {
    return grouped(cpus, [this](int cpu) {
      return parse_cpu_list(read_small_file(of_cpu(cpu) + "/topology/thread_siblings_list"));
    });
  }

  /// `cpus` by the largest cache they share, the largest group first.
  [[nodiscard]] std::vector<Cpus> complexes(const Cpus& cpus) const {
    auto groups = grouped(cpus, [this](int cpu) { return sharing_last_cache(cpu); });
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Cpus& a, const Cpus& b) { return a.size() > b.size(); });
    return groups;
  }

 private:
  static constexpr const char* kNodes = "/sys/devices/system/node/";

  [[nodiscard]] std::string of_cpu(int cpu) const {
    return root_ + "/sys/devices/system/cpu/cpu" + std::to_string(cpu);
  }
  [[nodiscard]] std::string socket_of(int cpu) const {
    return std::string(trim(read_small_file(of_cpu(cpu) + "/topology/physical_package_id")));
  }
  [[nodiscard]] Cpus allowed_only(Cpus cpus) const {
    Cpus kept;
    std::sort(cpus.begin(), cpus.end());
    std::set_intersection(cpus.begin(), cpus.end(), allowed_.begin(), allowed_.end(),
                          std::back_inserter(kept));
    return kept;
  }

  template <typename Sharing>
  [[nodiscard]] std::vector<Cpus> grouped(const Cpus& cpus, Sharing sharing) const {
    std::map<int, Cpus> groups;
    for (const int cpu : cpus) {
      const Cpus shared = sharing(cpu);
      const int name = shared.empty() ? cpu : *std::min_element(shared.begin(), shared.end());
      groups[name].push_back(cpu);
    }
    std::vector<Cpus> list;
    for (auto& [name, group] : groups) list.push_back(std::move(group));
    return list;
  }

  [[nodiscard]] Cpus sharing_last_cache(int cpu) const {
    std::int64_t highest = -1;
    Cpus shared;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(of_cpu(cpu) + "/cache", error)) {
      const std::string folder = entry.path().string();
      if (entry.path().filename().string().rfind("index", 0) != 0) continue;
      const std::string type(trim(read_small_file(folder + "/type")));
      const auto level = leading_integer(read_small_file(folder + "/level")).value_or(-1);
      if ((type != "Unified" && type != "Data") || level <= highest) continue;
      highest = level;
      shared = parse_cpu_list(read_small_file(folder + "/shared_cpu_list"));
    }
    return shared;
  }

  /// NUMA nodes of NVIDIA's display and 3D controllers, in the order of their addresses, which is
  /// that of CUDA with CUDA_DEVICE_ORDER=PCI_BUS_ID and of hosts with equal GPUs.
  void read_gpus() {
    std::map<std::string, int> gpus;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(root_ + "/sys/bus/pci/devices", error)) {
      const std::string folder = entry.path().string();
      const bool is_nvidia = trim(read_small_file(folder + "/vendor")) == "0x10de";
      const std::string kind(trim(read_small_file(folder + "/class")));
      if (!is_nvidia || kind.rfind("0x03", 0) != 0) continue;
      const auto node = leading_integer(read_small_file(folder + "/numa_node")).value_or(0);
      gpus[entry.path().filename().string()] = static_cast<int>(std::max<std::int64_t>(0, node));
    }
    for (const auto& [address, node] : gpus) gpu_nodes_.push_back(node);
  }

  std::string root_;
  Cpus allowed_;
  std::map<int, Cpus> nodes_;   // with at least one core that is allowed
  std::vector<int> gpu_nodes_;  // by GPU
};

[[noreturn]] void too_few_cores(std::size_t cores, std::size_t ranks, const std::string& where,
                                const std::string& flag) {
  throw UsageError({{"LS-1013", flag,
                     std::to_string(ranks) + " ranks want cores of their own, and " + where +
                         " has " + std::to_string(cores),
                     "start fewer ranks, or leave the flag out"}});
}

Cpus flat(const std::vector<Cpus>& groups) {
  Cpus cpus;
  for (const Cpus& group : groups) cpus.insert(cpus.end(), group.begin(), group.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

/// The rank's place among those of the same node, and how many they are.
std::pair<std::size_t, std::size_t> place_on_node(const std::vector<int>& nodes, std::size_t rank) {
  const auto before = nodes.begin() + static_cast<std::ptrdiff_t>(rank);
  return {static_cast<std::size_t>(std::count(nodes.begin(), before, nodes[rank])),
          static_cast<std::size_t>(std::count(nodes.begin(), nodes.end(), nodes[rank]))};
}

Cpus cpus_of_rank(const Machine& machine, CoreBinding binding, const std::vector<int>& nodes,
                  std::size_t rank) {
  const Cpus& of_node = machine.cpus_of_node(nodes[rank]);
  if (binding == CoreBinding::node) return of_node;
  if (binding == CoreBinding::socket) return machine.cpus_of_socket(nodes[rank]);
  const auto [place, count] = place_on_node(nodes, rank);
  if (binding == CoreBinding::core_complex) {
    const auto complexes = machine.complexes(of_node);
    return complexes[place % complexes.size()];
  }
  const auto cores = machine.cores(of_node);
  if (cores.size() < count) {
    too_few_cores(cores.size(), count, "NUMA node " + std::to_string(nodes[rank]),
                  "--numa-binding");
  }
  return flat(part_of(cores, place, count));
}

}  // namespace

std::vector<std::vector<int>> cpus_of_ranks(CoreBinding binding, int ranks,
                                            const std::string& root) {
  std::vector<Cpus> list;
  if (binding == CoreBinding::none) return list;
  const Machine machine(root);
  if (machine.allowed().empty()) return list;  // /proc says nothing: no binding is better than one
  const auto count = static_cast<std::size_t>(ranks);
  if (binding == CoreBinding::cores) {
    const auto cores = machine.cores(machine.allowed());
    if (cores.size() < count) too_few_cores(cores.size(), count, "this host", "--bind-cores");
    for (std::size_t rank = 0; rank < count; ++rank)
      list.push_back(flat(part_of(cores, rank, count)));
    return list;
  }
  const std::vector<int> nodes = machine.nodes_of_ranks(ranks);
  for (std::size_t rank = 0; rank < count; ++rank) {
    list.push_back(cpus_of_rank(machine, binding, nodes, rank));
  }
  return list;
}

std::string cpu_list_text(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) text += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace lockstep::launch
