#include "lockstep/comm/host_link.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/told_reason.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

// A rank that waits for another host gives up before those that wait for it here.
constexpr std::chrono::milliseconds kPatience{2000};

Declaration declaration_of(const shm::Fingerprint& whole) {
  Declaration declaration{whole, {}};
  const std::string_view site = Purpose::current();
  std::copy_n(site.begin(), std::min(site.size(), shm::kSiteBytes - 1), declaration.site.begin());
  return declaration;
}

std::string side_text(int rank, const Declaration& declaration) {
  return shm::entry_text(rank, declaration.whole, declaration.site.data());
}

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
      all_(ranks_.size()),
      link_(connect(store, options, layout, size())) {}

/// Messages of the engine begin with the step of it that failed: "reduce #12 (bucket 4): ".
std::string HostLink::cause_in(const std::string& what) const {
  if (auto cause = told_in(what)) return *cause;
  const std::string site(Purpose::current());
  const std::string end_of_title = site.empty() ? ": " : " (" + site + "): ";
  const std::size_t number = what.find(" #");
  const std::size_t end = what.find(end_of_title);
  const bool is_titled = number != std::string::npos && end != std::string::npos && number < end &&
                         what.find(' ') == number;
  const std::string cause = is_titled ? what.substr(end + end_of_title.size()) : what;
  return "on host " + host_ + ": " + in_group_numbers(cause, ranks_);
}

void HostLink::run(shm::Request request, std::chrono::milliseconds deadline) {
  request.site = Purpose::current();
  try {
    const auto operation = link_->engine().issue(std::move(request));
    link_->engine().wait(*operation, deadline);
  } catch (const Disagreement& error) {
    throw Disagreement(cause_in(error.problems().front().what));
  } catch (const PeerLost& error) {
    Problem problem = error.problems().front();
    problem.what = cause_in(problem.what);
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
  run(std::move(request), deadline_ + kPatience);
}

void HostLink::declare(const shm::Fingerprint& whole) {
  if (link_ == nullptr) return;
  ++declared_;
  own_ = declaration_of(whole);
  shm::Request request;
  request.kind.collective = Collective::all_gather;
  request.count = sizeof own_;
  request.input = &own_;
  request.output = all_.data();
  run(std::move(request), deadline_);
  for (std::size_t r = 1; r < all_.size(); ++r) {
    if (all_[r].whole == all_[0].whole) continue;
    throw Disagreement("on host " + host_ + ": collective #" + std::to_string(declared_) + ": " +
                       side_text(ranks_[0], all_[0]) + ", " + side_text(ranks_[r], all_[r]));
  }
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
  if (link_ != nullptr) link_->segment().abort(as_told(reason), kind);
}

}  // namespace lockstep::comm
