// n ranks on H hosts; L ranks on this host; count elements a rank.
#include "lockstep/comm/hierarchy.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/connection_watch.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/purpose.h"
#include "lockstep/comm/told_reason.h"
#include "lockstep/comm/tree_sum.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {
namespace {

using shm::Collective;

// Up to here the first ranks carry all: a message has one price, whatever it holds.
constexpr std::int64_t kSmallBytes = std::int64_t{32} << 10;
// Larger tensors go in parts: one is between the hosts while another is inside them.
constexpr std::int64_t kPartBytes = std::int64_t{4} << 20;
// The ranks of a host find what went wrong there before those of other hosts give up.
constexpr std::chrono::milliseconds kOthersFirst{1000};

const RankPlace& place_of(const std::vector<RankPlace>& places, int rank) {
  return places.at(static_cast<std::size_t>(rank));
}

/// The ranks that carry bytes between hosts together with local rank `lane`.
std::vector<int> ranks_of_lane(const HostLayout& layout, int lane) {
  std::vector<int> ranks;
  for (int host = 0; host < layout.hosts(); ++host) {
    ranks.push_back(layout.ranks_of(host).at(static_cast<std::size_t>(lane)));
  }
  return ranks;
}

int lane_of(const HostLayout& layout) { return layout.is_even() ? layout.local() : 0; }

std::vector<int> numbers_below(int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

/// Words of a part of the group whose ranks are these, as a cause that names ranks of the group.
std::string cause_in(const std::string& words, const std::vector<int>& ranks) {
  if (auto cause = told_in(words)) return *cause;
  return in_group_numbers(words, ranks);
}

control::End cause_in(const control::End& end, const std::vector<int>& ranks) {
  const bool is_own = end.disagreement && !told_in(end.reason);
  return {end.disagreement, (is_own ? "between hosts: " : "") + cause_in(end.reason, ranks)};
}

}  // namespace

/// A stretch of a tensor on its way.
struct Hierarchy::Part {
  at::Tensor tensor;               // the stretch, in the caller's memory
  at::Tensor share;                // what this rank carries to the other hosts; may be undefined
  bool is_shared_out = false;      // every rank of the host has a share
  std::unique_ptr<Work> carrying;  // null on ranks that carry nothing

  /// Elements of each rank's share; the last rank has those that are left over on top.
  [[nodiscard]] std::int64_t share_of(int ranks) const { return tensor.numel() / ranks; }
};

Hierarchy::Hierarchy(const GroupOptions& options, c10::intrusive_ptr<c10d::Store> store,
                     std::vector<RankPlace> places)
    : options_(options),
      store_(std::move(store)),
      places_(std::move(places)),
      layout_(layout_of(places_, options.rank)),
      lane_(ranks_of_lane(layout_, lane_of(layout_))),
      all_(numbers_below(options.size)),
      blame_(layout_, places_),
      inside_(*store_, options, layout_, place_of(places_, options.rank).host_name) {
  const int lane = lane_of(layout_);
  if (layout_.local() != lane) return;
  attempt([&] { connect(between_, "lane" + std::to_string(lane), lane_, Compared::declared); });
}

/// Joins a part of the group: ranks that have met already.
void Hierarchy::connect(std::unique_ptr<GlooPart>& part, const std::string& name,
                        const std::vector<int>& ranks, Compared compared) {
  GroupOptions own = options_;
  own.name = options_.name + "/" + name;
  own.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), own.rank) - ranks.begin());
  own.size = static_cast<int>(ranks.size());
  own.deadline += kOthersFirst;
  own.flight = nullptr;  // what the caller entered is on record; not how it is carried out
  across(
      [&] {
        auto made = make_gloo_part(own, Meeting{nullptr, store_}, compared,
                                   [this, &ranks](const auto& e) { end(cause_in(e, ranks)); });
        const std::lock_guard lock(parts_);
        part = std::move(made);
      },
      ranks);
  watch_connections(places_);
}

void Hierarchy::end(const control::End& cause) {
  inside_.abort(cause.reason,
                cause.disagreement ? shm::AbortKind::disagreement : shm::AbortKind::lost);
  const control::End told{cause.disagreement, as_told(cause.reason)};
  const std::lock_guard lock(parts_);
  if (between_ != nullptr) between_->end(told);
  if (flat_ != nullptr) flat_->end(told);
}

/// Outside the lock: their threads may be in end().
void Hierarchy::close() {
  std::unique_ptr<GlooPart> between;
  std::unique_ptr<GlooPart> flat;
  const std::lock_guard lock(parts_);
  between.swap(between_);
  flat.swap(flat_);
}

/// Whatever this rank fails with ends the group.
void Hierarchy::attempt(const Action& action) {
  try {
    action();
  } catch (const Disagreement& error) {
    end({true, error.problems().front().what});
    throw;
  } catch (const PeerLost& error) {
    Problem problem = error.problems().front();
    end({false, problem.what});
    problem.where = where_of(options_);
    problem.what = blame_.text_of(problem.what);
    throw PeerLost(std::move(problem));
  } catch (const std::exception& error) {
    end({false, "rank " + std::to_string(options_.rank) + " failed: " + error.what()});
    throw;
  }
}

void Hierarchy::run(shm::CollectiveKind kind, const at::Tensor& payload, std::int64_t count,
                    const Action& action) {
  attempt([&] {
    if (payload.defined()) kind.type = element_type(payload.scalar_type());
    const auto whole = shm::make_fingerprint(kind, static_cast<std::uint64_t>(count));
    inside_.declare(whole);
    if (carries()) between_->declare(whole, Purpose::current());
    action();
  });
}

/// Returns when all ranks of the group have declared what this one has.
void Hierarchy::meet() {
  if (layout_.local() == 0) across([&] { between_->confirm(); });
  inside_.barrier();
}

/// In tree order, what is added in fp32 is rounded once: not inside the hosts and again between
/// them.
bool Hierarchy::nests_tree(const at::Tensor& tensor) const {
  return layout_.nests_tree() && !adds_in_fp32(tensor.scalar_type());
}

void Hierarchy::all_reduce(const at::Tensor& flat, ReduceOp op, Order order) {
  run({.collective = Collective::all_reduce,
       .reduction = reduction_of(op),
       .ordered = order == Order::tree},
      flat, flat.numel(), [&] {
        if (order != Order::tree || nests_tree(flat)) return sum(flat, op, order);
        connect_all();
        across([&] { flat_->all_reduce(flat, op, order)->wait(); }, all_);
      });
}

void Hierarchy::connect_all() {
  if (flat_ != nullptr) return;
  meet();  // says who is missing, which connecting cannot
  connect(flat_, "flat", all_, Compared::each);
}

/// In the order of the hosts and of the ranks inside them.
void Hierarchy::sum(const at::Tensor& flat, ReduceOp op, Order order) {
  const std::int64_t most = kPartBytes / static_cast<std::int64_t>(flat.element_size());
  std::deque<Part> carried;
  for (std::int64_t at = 0; at < flat.numel(); at += most) {
    carried.push_back(
        reduce_inside(flat.narrow(0, at, std::min(most, flat.numel() - at)), op, order));
    if (carried.size() < 2) continue;
    spread_inside(carried.front());
    carried.pop_front();
  }
  for (Part& part : carried) spread_inside(part);
}

Hierarchy::Part Hierarchy::reduce_inside(const at::Tensor& tensor, ReduceOp op, Order order) {
  Part part;
  part.tensor = tensor;
  part.is_shared_out =
      layout_.is_even() && static_cast<std::int64_t>(tensor.nbytes()) > kSmallBytes;
  if (part.is_shared_out) {
    reduce_to_shares(part, op);
  } else {
    inside_.reduce(tensor, tensor, op, 0);
    if (layout_.local() == 0) part.share = tensor;
  }
  if (part.share.defined()) {
    across([&] { part.carrying = between_->all_reduce(part.share, op, order); });
  }
  return part;
}

void Hierarchy::reduce_to_shares(Part& part, ReduceOp op) {
  const int ranks = inside_.size();
  const std::int64_t even = part.share_of(ranks);
  const std::int64_t left_over = part.tensor.numel() - even * ranks;
  const bool is_last = layout_.local() + 1 == ranks;
  const memory::Scope staging(memory::Category::communication);
  part.share = at::empty({even + (is_last ? left_over : 0)}, part.tensor.options());
  inside_.reduce_scatter(part.share.narrow(0, 0, even), part.tensor.narrow(0, 0, even * ranks), op);
  if (left_over == 0) return;
  const at::Tensor rest = part.tensor.narrow(0, even * ranks, left_over);
  inside_.reduce(is_last ? part.share.narrow(0, even, left_over) : rest, rest, op, ranks - 1);
}

void Hierarchy::spread_inside(Part& part) {
  if (part.carrying != nullptr) across([&] { part.carrying->wait(); });
  if (!part.is_shared_out) return inside_.broadcast(part.tensor, 0);
  const int ranks = inside_.size();
  const std::int64_t even = part.share_of(ranks);
  const std::int64_t left_over = part.tensor.numel() - even * ranks;
  inside_.all_gather(part.tensor.narrow(0, 0, even * ranks), part.share.narrow(0, 0, even));
  if (left_over == 0) return;
  const at::Tensor rest = part.tensor.narrow(0, even * ranks, left_over);
  if (layout_.local() + 1 == ranks) rest.copy_(part.share.narrow(0, even, left_over));
  inside_.broadcast(rest, ranks - 1);
}

/// The rows of a host's ranks: a view where these follow each other, else a copy.
at::Tensor Hierarchy::rows_of(const at::Tensor& all_ranks, int host) const {
  const std::vector<int>& ranks = layout_.ranks_of(host);
  const auto count = static_cast<std::int64_t>(ranks.size());
  if (layout_.is_contiguous()) return all_ranks.narrow(0, ranks.front(), count);
  std::vector<at::Tensor> rows;
  for (const int rank : ranks) rows.push_back(all_ranks[rank]);
  return at::stack(rows);
}

void Hierarchy::reduce_scatter(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  run({.collective = Collective::reduce_scatter, .reduction = reduction_of(op)}, output,
      output.numel(), [&] {
        const memory::Scope staging(memory::Category::communication);
        if (layout_.is_even()) return scatter_even(output, input, op);
        const at::Tensor sums = input.clone();
        sum(sums.view(-1), op, Order::any);
        output.copy_(sums[options_.rank]);
      });
}

void Hierarchy::scatter_even(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
  const at::Tensor sums = at::empty({layout_.hosts(), output.numel()}, output.options());
  for (int host = 0; host < layout_.hosts(); ++host) {
    inside_.reduce_scatter(sums[host], rows_of(input, host).view(-1), op);
  }
  across([&] { between_->reduce_scatter(output, sums, op)->wait(); });
}

void Hierarchy::all_gather(const at::Tensor& output, const at::Tensor& input) {
  run({.collective = Collective::all_gather}, input, input.numel(), [&] {
    const memory::Scope staging(memory::Category::communication);
    if (layout_.is_even()) return gather_even(output, input);
    gather_by_first_ranks(output, input);
  });
}

void Hierarchy::gather_even(const at::Tensor& output, const at::Tensor& input) {
  const at::Tensor lane = at::empty({layout_.hosts(), input.numel()}, input.options());
  across([&] { between_->all_gather(lane, input)->wait(); });
  for (int host = 0; host < layout_.hosts(); ++host) {
    const std::vector<int>& ranks = layout_.ranks_of(host);
    if (layout_.is_contiguous()) {
      inside_.all_gather(rows_of(output, host).view(-1), lane[host]);
      continue;
    }
    const at::Tensor rows = at::empty({inside_.size(), input.numel()}, input.options());
    inside_.all_gather(rows.view(-1), lane[host]);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      output[ranks[r]].copy_(rows[static_cast<std::int64_t>(r)]);
    }
  }
}

void Hierarchy::gather_by_first_ranks(const at::Tensor& output, const at::Tensor& input) {
  const std::int64_t most = layout_.most_on_a_host();
  const std::int64_t count = input.numel();
  const at::Tensor all = at::empty({layout_.hosts(), most, count}, input.options());
  const at::Tensor own = at::zeros({most, count}, input.options());
  inside_.all_gather(own.narrow(0, 0, inside_.size()).view(-1), input);
  if (carries()) across([&] { between_->all_gather(all, own)->wait(); });
  inside_.broadcast(all.view(-1), 0);
  for (int rank = 0; rank < options_.size; ++rank) {
    output[rank].copy_(all[layout_.host_of(rank)][layout_.local_of(rank)]);
  }
}

void Hierarchy::broadcast(const at::Tensor& flat, int root) {
  run({.collective = Collective::broadcast, .root = static_cast<std::uint32_t>(root)}, flat,
      flat.numel(), [&] { spread(flat, root); });
}

/// The last call inside a host comes after that to other hosts: who carries nothing knows from it
/// that all entered the same.
void Hierarchy::spread(const at::Tensor& flat, int root) {
  const int from = layout_.host_of(root);
  const int carrier = layout_.is_even() ? layout_.local_of(root) : 0;
  const bool is_handed_over = layout_.host() == from && layout_.local_of(root) != carrier;
  if (is_handed_over) inside_.broadcast(flat, layout_.local_of(root));
  if (layout_.local() == carrier) across([&] { between_->broadcast(flat, from)->wait(); });
  is_handed_over ? inside_.barrier() : inside_.broadcast(flat, carrier);
}

void Hierarchy::barrier() {
  run({.collective = Collective::barrier}, {}, 0, [&] { meet(); });
}

void Hierarchy::across(const Action& action, const std::vector<int>& ranks) const {
  try {
    action();
  } catch (const Disagreement& error) {
    throw Disagreement(cause_in(control::End{true, error.problems().front().what}, ranks).reason);
  } catch (const PeerLost& error) {
    Problem problem = error.problems().front();
    problem.what = cause_in(problem.what, ranks);
    throw PeerLost(std::move(problem));
  }
}

}  // namespace lockstep::comm
