#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/shm/direct.h"
#include "lockstep/comm/shm/exchange_steps.h"
#include "lockstep/comm/shm/gather_steps.h"
#include "lockstep/comm/shm/operation.h"
#include "lockstep/comm/shm/reduce_steps.h"
#include "lockstep/comm/shm/symmetric_reduce.h"

namespace lockstep::comm::shm {

std::shared_ptr<Operation> make_operation(const Segment& segment, RingWriter& writer,
                                          Gathering& gathering, Request request) {
  const Collective collective = request.kind.collective;
  const bool reduces = collective <= Collective::reduce_scatter;
  LOCKSTEP_CHECK(!reduces || is_defined(request.kind.reduction, request.kind.type),
                 std::string(name(request.kind.reduction)) + " of " +
                     std::string(name(request.kind.type)) + " is not defined");
  if (!request.kind.uneven && direct_payload_bytes(request, segment.ranks()) <= kDirectBytes) {
    return std::make_shared<DirectOperation>(segment, writer, std::move(request));
  }
  if (request.symmetric && request.kind.collective == Collective::all_reduce) {
    return std::make_shared<SymmetricReduce>(segment, writer, std::move(request));
  }
  if (reduces) return std::make_shared<ReduceSteps>(segment, writer, std::move(request));
  if (collective == Collective::all_gather && segment.ranks() > 1) {
    return std::make_shared<GatherSteps>(segment, writer, gathering, std::move(request));
  }
  return std::make_shared<ExchangeSteps>(segment, writer, std::move(request));
}

}  // namespace lockstep::comm::shm
