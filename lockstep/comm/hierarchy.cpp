// n ranks on H hosts; L ranks on this host; count elements a rank.
#include "lockstep/comm/hierarchy.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cctype>
#include <deque>
#include <numeric>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/connection_watch.h"
#include "lockstep/comm/host_word.h"
#include "lockstep/comm/join.h"
#include "lockstep/comm/make_group.h"
#include "lockstep/comm/records/disagreement.h"
#include "lockstep/comm/records/flight_words.h"
#include "lockstep/memory/category.h"

namespace lockstep::comm {
namespace {

// Up to here the first ranks carry all: a message has one price, whatever it holds.
constexpr std::int64_t kSmallBytes = std::int64_t{32} << 10;
// Larger tensors go in parts: one is between the hosts while another is inside them.
constexpr std::int64_t kPartBytes = std::int64_t{4} << 20;
// The ranks of a host find what went wrong there before those of other hosts give up.
constexpr std::chrono::milliseconds kOthersFirst{1000};

std::vector<std::string> host_ids(const std::vector<RankPlace>& places) {
  std::vector<std::string> ids;
  for (const RankPlace& place : places) ids.push_back(place.host_id);
  return ids;
}

const RankPlace& place_of(const std::vector<RankPlace>& places, int rank) {
  return places.at(static_cast<std::size_t>(rank));
}

/// Of "all_reduce #7 (...) failed (deadline 9 s): CAUSE; last completed here: ...", the cause.
std::string cause_in(const std::string& what) {
  std::size_t begin = what.find(" failed (deadline ");
  if (begin != std::string::npos) begin = what.find("): ", begin);
  begin = begin == std::string::npos ? 0 : begin + 3;
  const std::size_t end = std::min(what.find("; last completed here", begin),
                                   what.find("; none had completed before", begin));
  return what.substr(begin, end == std::string::npos ? end : end - begin);
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

/// A group over Gloo of ranks that have met already.
std::unique_ptr<Group> connect_between(const GroupOptions& options, const std::string& name,
                                       int rank, int size,
                                       const c10::intrusive_ptr<c10d::Store>& store,
                                       const std::vector<RankPlace>& places) {
  GroupOptions own = options;
  own.name = options.name + "/" + name;
  own.rank = rank;
  own.size = size;
  own.deadline += kOthersFirst;
  own.flight = nullptr;  // what the caller entered is on record; not how it is carried out
  auto group = make_gloo_group(own, Meeting{nullptr, store});
  watch_connections(places);
  return group;
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
      layout_(host_ids(places_), options.rank),
      lane_(ranks_of_lane(layout_, lane_of(layout_))),
      inside_(*store_, options, layout_, place_of(places_, options.rank).host_name) {
  const int lane = lane_of(layout_);
  if (layout_.local() != lane) return;
  across([&] {
    between_ = connect_between(options_, "lane" + std::to_string(lane), layout_.host(),
                               layout_.hosts(), store_, places_);
  });
}

void Hierarchy::abort(const std::string& reason, shm::AbortKind kind) {
  inside_.abort(reason, kind);
  if (!others_lost_) leave_word(options_, layout_.host(), reason);
}

void Hierarchy::close() {
  between_.reset();
  flat_.reset();
}

/// bf16 sums of more than two ranks are rounded once in shared memory, but at every level over
/// Gloo.
bool Hierarchy::nests_tree(const at::Tensor& tensor) const {
  return layout_.nests_tree() &&
         (tensor.scalar_type() != at::kBFloat16 || layout_.most_on_a_host() <= 2);
}

void Hierarchy::connect_all() {
  if (flat_ != nullptr) return;
  barrier();  // says who is missing, which connecting cannot
  across([&] {
    flat_ = connect_between(options_, "flat", options_.rank, options_.size, store_, places_);
  });
}

void Hierarchy::all_reduce(const at::Tensor& flat, ReduceOp op, Order order) {
  if (order == Order::tree && !nests_tree(flat)) {
    std::vector<int> all(static_cast<std::size_t>(options_.size));
    std::iota(all.begin(), all.end(), 0);
    connect_all();
    return across([&] { flat_->all_reduce(flat, op, order)->wait(); }, all);
  }
  inside_.begin(false);
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
  const memory::Scope staging(memory::Category::communication);
  if (!layout_.is_even()) {
    const at::Tensor sums = input.clone();
    all_reduce(sums.view(-1), op, Order::any);
    output.copy_(sums[options_.rank]);
    return;
  }
  inside_.begin(false);
  const at::Tensor sums = at::empty({layout_.hosts(), output.numel()}, output.options());
  for (int host = 0; host < layout_.hosts(); ++host) {
    inside_.reduce_scatter(sums[host], rows_of(input, host).view(-1), op);
  }
  across([&] { between_->reduce_scatter(output, sums, op)->wait(); });
}

void Hierarchy::all_gather(const at::Tensor& output, const at::Tensor& input) {
  const memory::Scope staging(memory::Category::communication);
  inside_.begin(layout_.is_even());
  if (!layout_.is_even()) return gather_by_first_ranks(output, input);
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
  const int from = layout_.host_of(root);
  const int carrier = layout_.is_even() ? layout_.local_of(root) : 0;
  const auto carry = [&] {
    if (layout_.local() != carrier) return;
    across([&] { between_->broadcast(flat, from)->wait(); });
  };
  inside_.begin(layout_.host() != from);
  if (layout_.host() == from) {
    inside_.broadcast(flat, layout_.local_of(root));
    carry();
  } else {
    carry();
    inside_.broadcast(flat, carrier);
  }
}

void Hierarchy::barrier() {
  inside_.begin(false);
  inside_.barrier();
  if (layout_.local() == 0) across([&] { between_->barrier(); });
  inside_.barrier();
}

void Hierarchy::across(const std::function<void()>& action, const std::vector<int>& ranks) {
  try {
    action();
  } catch (const Disagreement& error) {
    throw Disagreement("between hosts: " + in_group_numbers(error.problems().front().what, ranks));
  } catch (const PeerLost& error) {
    others_lost_ = true;
    Problem problem = error.problems().front();
    problem.where = where_of(options_);
    problem.what = lost_text(in_group_numbers(cause_in(problem.what), ranks));
    throw PeerLost(std::move(problem));
  }
}

/// Whether the cause names a carrying rank of the host, or an address that is only this host's.
bool Hierarchy::speaks_of(const std::string& cause, int host) const {
  const std::vector<int>& ranks = layout_.ranks_of(host);
  const std::string& own = place_of(places_, options_.rank).address;
  return std::any_of(ranks.begin(), ranks.end(), [&](int rank) {
    const std::string name = "rank " + std::to_string(rank);
    const std::size_t at = cause.find(name);
    const bool is_named = at != std::string::npos &&
                          (at + name.size() == cause.size() ||
                           std::isdigit(static_cast<unsigned char>(cause[at + name.size()])) == 0);
    const std::string& address = place_of(places_, rank).address;
    return is_named || (address != own && cause.find("[" + address + "]") != std::string::npos);
  });
}

/// Blames the hosts that the cause speaks of, else every host but this one. Where all ranks are
/// joined (flat_) the cause may be at home.
std::string Hierarchy::lost_text(const std::string& cause) const {
  std::vector<int> lost;
  std::vector<int> others;
  for (int host = 0; host < layout_.hosts(); ++host) {
    if (host == layout_.host()) continue;
    others.push_back(host);
    if (speaks_of(cause, host)) lost.push_back(host);
  }
  const bool is_known = !lost.empty();
  if (!is_known && speaks_of(cause, layout_.host())) {
    return "on host " + place_of(places_, options_.rank).host_name + ": " + cause;
  }
  if (!is_known) lost = others;
  std::string text = host_text(layout_.host()) + " has lost ";
  for (std::size_t i = 0; i < lost.size(); ++i) {
    text += (i == 0 ? "" : is_known ? " and " : " or ") + host_text(lost[i]);
  }
  text += ": " + cause;
  if (cause.find("left the group") == std::string::npos) return text;
  const std::string word = word_of(options_, lost.front());
  return word.empty() ? text : text + ", because " + word;
}

std::string Hierarchy::host_text(int host) const {
  const std::vector<int>& ranks = layout_.ranks_of(host);
  return "host " + place_of(places_, ranks.front()).host_name + " (" + ranks_text(ranks) + ")";
}

}  // namespace lockstep::comm
