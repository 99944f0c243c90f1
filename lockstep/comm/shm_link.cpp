#include "lockstep/comm/shm_link.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/limits.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/shm/cpu_sets.h"
#include "lockstep/comm/shm/standard_layout.h"

namespace lockstep::comm {
namespace {

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::vector<std::uint8_t> bytes_of_text(const std::string& text) {
  return {text.begin(), text.end()};
}

using shm::SharedMemory;

constexpr const char* kNoRoom = "no room";  // instead of the CPUs of a rank that attached

shm::SharedMemory create_memory(const shm::Layout& layout) {
  auto memory = SharedMemory::create(layout.total_bytes(), SharedMemory::Pages::later);
  if (!memory.reserve(0, layout.data_offset(0))) SharedMemory::fail_full(memory.bytes());
  shm::Segment::format_shared({memory.data(), memory.bytes()}, layout);
  return memory;
}

/// Every rank takes the pages of its own data: they lie on its memory node.
bool take_own_pages(const SharedMemory& memory, int rank, int ranks) {
  const shm::Layout layout = shm::standard_layout(ranks);
  if (memory.bytes() != layout.total_bytes()) return true;  // the segment will refuse it
  if (!memory.reserve(layout.data_offset(rank), layout.data_bytes())) return false;
  shm::Segment::format_data({memory.data(), memory.bytes()}, layout, rank);
  return true;
}

}  // namespace

ShmLink::ShmLink(shm::SharedMemory memory, const GroupOptions& options, GroupFlight* flight)
    : memory_(std::move(memory)),
      held_(memory::Category::communication, static_cast<std::int64_t>(memory_.bytes())),
      segment_({memory_.data(), memory_.bytes()}, options.rank, options.size),
      liveness_(std::in_place, segment_),
      engine_(segment_, {.name = options.name, .flight = flight}) {}

void ShmLink::leave() {
  engine_.close();
  liveness_.reset();
}

std::unique_ptr<ShmLink> connect_shm(c10d::Store& store, const GroupOptions& options,
                                     GroupFlight* flight) {
  const std::string key = options.name + "/shm/";
  try {
    if (options.rank == 0) {
      auto memory = create_memory(shm::standard_layout(options.size));
      if (!take_own_pages(memory, 0, options.size)) SharedMemory::fail_full(memory.bytes());
      store.set(key + "memory", bytes_of_text(memory.locator()));
      auto link = std::make_unique<ShmLink>(std::move(memory), options, flight);
      std::vector<std::string> others;
      for (int r = 1; r < options.size; ++r) others.push_back(key + std::to_string(r));
      if (!others.empty()) store.wait(others, options.join_deadline);
      link->memory_.close_door();
      std::vector<std::string> cpus{shm::own_cpus()};
      for (const std::string& other : others) {
        cpus.push_back(text_of(store.get(other)));
        if (cpus.back() == kNoRoom) SharedMemory::fail_full(link->memory_.bytes());
      }
      link->segment_.tell_cpus(shm::count_cpus(cpus));
      return link;
    }
    store.wait({key + "memory"}, options.join_deadline);
    auto memory =
        SharedMemory::open(text_of(store.get(key + "memory")), SharedMemory::Pages::later);
    if (!take_own_pages(memory, options.rank, options.size)) {
      store.set(key + std::to_string(options.rank), bytes_of_text(kNoRoom));
      SharedMemory::fail_full(memory.bytes());
    }
    memory.close_door();
    auto link = std::make_unique<ShmLink>(std::move(memory), options, flight);
    // That it has attached, and what it may use.
    store.set(key + std::to_string(options.rank), bytes_of_text(shm::own_cpus()));
    return link;
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (const auto fault = limit_fault_of(error)) throw EnvironmentFault(*fault);
    throw PeerLost({"LS-4005", where_of(options),
                    "all ranks joined, but not all opened the shared memory of the group within " +
                        to_text(options.join_deadline),
                    "see whether a rank ended meanwhile: its own log says why"});
  }
}

std::string host_identity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat processes {};
  const bool seen = ::stat("/proc/self/ns/pid", &processes) == 0;
  return boot + "/" + (seen ? std::to_string(processes.st_ino) : "?") + "/" +
         std::to_string(::geteuid());
}

shm::ElementType element_type(at::ScalarType dtype) {
  using shm::ElementType;
  switch (dtype) {
    case at::kFloat:
      return ElementType::f32;
    case at::kDouble:
      return ElementType::f64;
    case at::kBFloat16:
      return ElementType::bf16;
    case at::kHalf:
      return ElementType::f16;
    case at::kChar:
      return ElementType::i8;
    case at::kByte:
      return ElementType::u8;
    case at::kShort:
      return ElementType::i16;
    case at::kInt:
      return ElementType::i32;
    case at::kLong:
      return ElementType::i64;
    case at::kBool:
      return ElementType::boolean;
    default:
      break;
  }
  throw Bug(__FILE__, __LINE__, std::string("shm does not move ") + c10::toString(dtype));
}

shm::Reduction reduction_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::min:
      return shm::Reduction::min;
    case ReduceOp::max:
      return shm::Reduction::max;
    case ReduceOp::sum:
      break;
  }
  return shm::Reduction::sum;
}

}  // namespace lockstep::comm
