// Small collectives: every rank writes its whole contribution and enters; whoever has seen all
// enter reads what it needs. One exchange, and nobody has to come back for the others.
#include "lockstep/comm/shm/direct.h"

#include <cstring>
#include <utility>

#include "lockstep/comm/shm/reduce_kernel.h"

namespace lockstep::comm::shm {

std::size_t direct_payload_bytes(const Request& request, int ranks) {
  const std::size_t bytes = request.count * bytes_of(request.kind.type);
  switch (request.kind.collective) {
    case Collective::reduce_scatter:
    case Collective::scatter:
    case Collective::all_to_all:
      return bytes * static_cast<std::size_t>(ranks);
    case Collective::barrier:
      return 0;
    default:
      return bytes;
  }
}

DirectOperation::DirectOperation(const Segment& segment, RingWriter& writer, Request request)
    : Operation(segment, writer, std::move(request)),
      payload_bytes_(direct_payload_bytes(request_, ranks())) {}

bool DirectOperation::contributes() const {
  const bool is_root = request_.kind.root == static_cast<std::uint32_t>(rank());
  switch (request_.kind.collective) {
    case Collective::broadcast:
    case Collective::scatter:
      return is_root;
    case Collective::reduce:
    case Collective::gather:
      return !is_root;
    default:
      return true;
  }
}

void DirectOperation::enter(Slot& slot, const Progress& progress) {
  if (payload_bytes_ == 0 || !contributes()) return;
  std::byte* const to = is_inline() ? slot.payload : segment_.direct(rank(), progress.sequence);
  if (is_inline()) {
    std::memcpy(to, request_.input, payload_bytes_);
  } else {
    writer_.copy(to, request_.input, payload_bytes_);
  }
}

const std::byte* DirectOperation::payload_of(int from) const {
  if (from == rank()) return static_cast<const std::byte*>(request_.input);
  return is_inline() ? slot_of(from).payload : segment_.direct(from, sequence());
}

bool DirectOperation::move() {
  if (finished_ || !met()) return false;
  finish();
  finished_ = true;
  return true;
}

void DirectOperation::finish() {
  const std::size_t part_bytes = request_.count * element_bytes();
  const auto mine = static_cast<std::size_t>(rank()) * part_bytes;
  const auto root = static_cast<int>(request_.kind.root);
  const bool is_root = root == rank();
  switch (request_.kind.collective) {
    case Collective::all_reduce:
      combine(0);
      break;
    case Collective::reduce:
      if (is_root) combine(0);
      break;
    case Collective::reduce_scatter:
      combine(mine);
      break;
    case Collective::broadcast:
      if (!is_root) take(root, 0, 0, part_bytes);
      break;
    case Collective::scatter:
      take(root, mine, 0, part_bytes);
      break;
    case Collective::gather:
      if (!is_root) break;
      [[fallthrough]];
    case Collective::all_gather:
      for (int r = 0; r < ranks(); ++r)
        take(r, 0, static_cast<std::size_t>(r) * part_bytes, part_bytes);
      break;
    case Collective::all_to_all:
      for (int r = 0; r < ranks(); ++r)
        take(r, mine, static_cast<std::size_t>(r) * part_bytes, part_bytes);
      break;
    case Collective::barrier:
      break;
  }
}

void DirectOperation::combine(std::size_t offset_bytes) {
  std::vector<const void*> terms;
  for (int r = 0; r < ranks(); ++r) terms.push_back(payload_of(r) + offset_bytes);
  const ReduceFunction reduce = kernels().reduce(request_.kind.type, request_.kind.reduction);
  reduce(request_.output, terms.data(), ranks(), request_.count);
}

void DirectOperation::take(int from, std::size_t offset_bytes, std::size_t to_bytes,
                           std::size_t bytes) {
  std::byte* const to = static_cast<std::byte*>(request_.output) + to_bytes;
  const std::byte* const source = payload_of(from) + offset_bytes;
  if (bytes > 0 && to != source) std::memmove(to, source, bytes);
}

}  // namespace lockstep::comm::shm
