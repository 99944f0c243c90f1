#include "lockstep/comm/host_link.h"

#include <string_view>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

// A rank that waits for another host gives up before those that wait for it here.
constexpr std::chrono::milliseconds kPatience{2000};

/// Before a reason that is in the group's own numbers already.
constexpr std::string_view kTold = "told: ";

std::unique_ptr<ShmLink> connect(c10d::Store& store, const GroupOptions& options,
                                 const HostLayout& layout, int size) {
  if (size == 1) return nullptr;
  GroupOptions inside = options;
  inside.rank = layout.local();
  inside.size = size;
  inside.name = options.name + "/host" + std::to_string(layout.host());
  try {
    return connect_shm(store, inside, nullptr);
  } catch (const PeerLost& error) {
    Problem problem = error.problems().front();
    problem.where = where_of(options);
    throw PeerLost(std::move(problem));
  }
}

}  // namespace

HostLink::HostLink(c10d::Store& store, const GroupOptions& options, const HostLayout& layout,
                   std::string host)
    : deadline_(options.deadline),
      ranks_(layout.ranks_of(layout.host())),
      host_(std::move(host)),
      link_(connect(store, options, layout, size())) {}

void HostLink::translate(const std::function<void()>& action) const {
  const auto told = [&](const std::string& what) {
    if (what.starts_with(kTold)) return what.substr(kTold.size());
    return "on host " + host_ + ": " + in_group_numbers(what, ranks_);
  };
  try {
    action();
  } catch (const Disagreement& error) {
    throw Disagreement(told(error.problems().front().what));
  } catch (const PeerLost& error) {
    Problem problem = error.problems().front();
    problem.what = told(problem.what);
    throw PeerLost(std::move(problem));
  }
}

void HostLink::run(shm::CollectiveKind kind, const at::Tensor& output, const at::Tensor& input,
                   std::int64_t count) {
  shm::Request request;
  request.kind = kind;
  request.count = static_cast<std::size_t>(count);
  if (input.defined()) {
    request.kind.type = element_type(input.scalar_type());
    request.input = input.const_data_ptr();
    request.output = output.mutable_data_ptr();
  }
  request.site = Purpose::current();
  translate([&] {
    const auto operation = link_->engine().issue(std::move(request));
    link_->engine().wait(*operation, is_patient_ ? deadline_ + kPatience : deadline_);
  });
  is_patient_ = true;
}

void HostLink::reduce(const at::Tensor& output, const at::Tensor& input, ReduceOp op, int root) {
  if (link_ == nullptr) {
    if (!output.is_alias_of(input)) output.copy_(input);
    return;
  }
  run({.collective = Collective::reduce,
       .reduction = reduction_of(op),
       .root = static_cast<std::uint32_t>(root)},
      output, input, input.numel());
}

void HostLink::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  if (link_ == nullptr) {
    output.copy_(input);
    return;
  }
  run({.collective = Collective::reduce_scatter, .reduction = reduction_of(op)}, output, input,
      output.numel());
}

void HostLink::all_gather(const at::Tensor& output, const at::Tensor& input) {
  if (link_ == nullptr) {
    if (!output.is_alias_of(input)) output.copy_(input);
    return;
  }
  run({.collective = Collective::all_gather}, output, input, input.numel());
}

void HostLink::broadcast(const at::Tensor& tensor, int root) {
  if (link_ == nullptr) return;
  run({.collective = Collective::broadcast, .root = static_cast<std::uint32_t>(root)}, tensor,
      tensor, tensor.numel());
}

void HostLink::barrier() {
  if (link_ != nullptr) run({.collective = Collective::barrier}, {}, {}, 0);
}

void HostLink::abort(const std::string& reason, shm::AbortKind kind) {
  if (link_ != nullptr) link_->segment().abort(std::string(kTold) + reason, kind);
}

}  // namespace lockstep::comm
