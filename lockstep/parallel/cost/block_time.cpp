#include "lockstep/parallel/cost/block_time.h"

#include "lockstep/parallel/cost/collective_time.h"

namespace lockstep::parallel {
namespace {

using model::OperatorKind;
using model::OperatorStats;

/// Elements that the block's operators exchange, of one micro-batch.
struct Exchanged {
  double forward_sums = 0;   // partial sums behind row-split products, added over tensor ranks
  double backward_sums = 0;  // gradients before column-split ones
  double gathered = 0;       // keys and values, from all context ranks
  double routed = 0;         // tokens to their experts, and back
  double looked_up = 0;      // rows of tables that other ranks have
};

bool is_shared(const OperatorStats& op) {
  return op.share == model::Share::tensor || op.share == model::Share::expert;
}

void add(Exchanged& sum, const OperatorStats& op, const OperatorSetting& setting) {
  const double tokens = setting.samples / setting.context;
  if (op.kind == OperatorKind::attention) {
    const double queries = 2 * op.m * op.k * op.times;  // and the result
    sum.gathered += (op.moved_elements - queries) * setting.samples / setting.tensor;
  }
  if (op.kind == OperatorKind::router) sum.routed += op.moved_elements / 2 * tokens;
  if (op.kind != OperatorKind::product || !is_shared(op) || !op.splits_inner) return;
  sum.forward_sums += op.m * op.times * op.n * tokens;
}

/// Each part between a column split and its row split adds up once in forward, behind it, and once
/// in backward, before it. A head has the column split alone, an embedding the lookup.
Exchanged exchanged(const BlockRun& run, const OperatorSetting& setting) {
  Exchanged sum;
  bool splits = false;
  bool looks_up = false;
  for (const OperatorStats& op : run.block->operators) {
    add(sum, op, setting);
    splits = splits || (op.kind == OperatorKind::product && is_shared(op));
    looks_up = looks_up || op.kind == OperatorKind::embedding;
    if (run.tables > 0 && op.kind == OperatorKind::embedding) {
      sum.looked_up += op.m * op.n * setting.samples;
    }
  }
  sum.backward_sums = sum.forward_sums;
  const double stream = run.block->input_elements * setting.samples / setting.context;
  if (splits && sum.forward_sums == 0) sum.backward_sums = stream;
  if (looks_up && run.split > 0 && run.block->input_elements == 0) {
    for (const OperatorStats& op : run.block->operators) {
      if (op.kind == OperatorKind::embedding) {
        sum.forward_sums += op.m * op.n * setting.samples / setting.context;
        break;
      }
    }
  }
  return sum;
}

/// With sequence parallelism a reduce_scatter and an all_gather take the place of the all_reduce:
/// the same bytes.
double tensor_time(double elements, const Layout& layout, const OperatorSetting& setting,
                   const Machine& machine) {
  return collective_time(Collective::all_reduce, elements * setting.element_bytes,
                         group_of(layout.tensor, 1, machine), machine);
}

void add_exchange(BlockTime& time, const Exchanged& sum, const Layout& layout,
                  const OperatorSetting& setting, const Machine& machine,
                  const SoftwareStack& stack) {
  const double backward_share =
      setting.sequence ? stack.exposed_sequence_backward : stack.exposed_backward;
  time.forward_comm_s =
      stack.exposed_forward * tensor_time(sum.forward_sums, layout, setting, machine);
  time.backward_comm_s = backward_share * tensor_time(sum.backward_sums, layout, setting, machine);
  const Group context = group_of(layout.context, layout.tensor, machine);
  const double gather = collective_time(Collective::all_gather,
                                        sum.gathered * setting.element_bytes, context, machine);
  const Group experts = group_of(layout.expert, layout.tensor, machine);
  const double route =
      collective_time(Collective::all_to_all, sum.routed * setting.element_bytes, experts, machine);
  const Group tables = group_of(layout.tables, layout.tensor, machine);
  const double rows = collective_time(Collective::all_to_all, sum.looked_up * setting.element_bytes,
                                      tables, machine);
  time.forward_comm_s += gather + route + rows;
  time.backward_comm_s += 2 * gather + route + rows;
  const double bytes = setting.element_bytes;
  time.tensor_bytes = sent_bytes(Collective::all_reduce,
                                 (sum.forward_sums + sum.backward_sums) * bytes, layout.tensor) +
                      3 * sent_bytes(Collective::all_gather, sum.gathered * bytes, layout.context) +
                      2 * sent_bytes(Collective::all_to_all, sum.routed * bytes, layout.expert) +
                      2 * sent_bytes(Collective::all_to_all, sum.looked_up * bytes, layout.tables);
}

}  // namespace

BlockTime block_time(const BlockRun& run, const Layout& layout, const OperatorSetting& setting,
                     const Machine& machine, const SoftwareStack& stack) {
  BlockTime time;
  double attention = 0;
  double last_product = 0;
  for (const OperatorStats& op : run.block->operators) {
    const OperatorTime one = operator_time(op, setting);
    time.forward_s += one.forward_s;
    time.backward_s += one.backward_s;
    if (op.kind == OperatorKind::attention) attention += one.forward_s;
    if (op.kind == OperatorKind::product) last_product = one.forward_s;
  }
  const double tensor = layout.tensor;
  time.parameters =
      run.whole + run.split / tensor + run.experts / (tensor * static_cast<double>(layout.expert));
  add_exchange(time, exchanged(run, setting), layout, setting, machine, stack);
  if (!run.block->is_layer || layout.recompute == Recompute::none) return time;
  if (layout.recompute == Recompute::selective) {
    time.recompute_s = attention;
    return time;
  }
  time.recompute_s = time.forward_s - (stack.skips_last_product ? last_product : 0);
  time.recompute_comm_s = time.forward_comm_s;
  time.tensor_bytes *= 1.5;  // forward's once more
  return time;
}

}  // namespace lockstep::parallel
