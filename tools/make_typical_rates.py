#!/usr/bin/env python3
"""Writes lockstep/topology/typical_rates.cpp from what `lockstep plan --calibrate` kept.

    tools/make_typical_rates.py ~/.cache/lockstep/kernels-....txt > lockstep/topology/typical_rates.cpp
"""

import sys


# Next to nothing of a step: fp32 stands for them. fp16 is computed in fp32.
AS_FP32 = ("embedding", "dropout", "sgd", "momentum", "sum")


def short(us):
    text = f"{us:.3g}"
    return text if "e+" not in text else f"{float(text):.0f}"


def read(path):
    rates = {"busy": [], "exchange": []}
    for line in open(path).read().splitlines()[1:]:
        name, *words = line.split()
        if name == "end":
            break
        if name in ("source", "cpu"):
            rates["cpu_model" if name == "cpu" else name] = " ".join(words)
        elif name == "cores":
            rates["cores"] = int(words[0])
        elif name == "ranks":
            rates["busy"].append({"ranks": int(words[0]), "points": []})
        elif name == "all_reduce":
            rates["exchange"].append({"ranks": int(words[0]), "bytes": int(float(words[1])), "us": float(words[2])})
        else:
            names = ("m", "n", "k", "forward_us", "backward_us", "backward_first_us")
            point = dict(zip(names, map(float, words[1:])), kernel=name, dtype=words[0])
            rates["busy"][-1]["points"].append(point)
    return rates


def main():
    rates = read(sys.argv[1])
    alone, busy = (one for one in (rates["busy"][0], rates["busy"][-2]))
    others = {(p["kernel"], p["dtype"], p["m"], p["n"], p["k"]): p for p in busy["points"]}
    rows = []
    for p in alone["points"]:
        if p["dtype"] == "fp16" or p["dtype"] == "bf16" and p["kernel"] in AS_FP32:
            continue
        key = (p["kernel"], p["dtype"], p["m"], p["n"], p["k"])
        q = others[key]
        cells = [f"Kernel::{p['kernel']}", p["dtype"], *(f"{p[k]:g}" if p[k] < 1e6 else f"{p[k]:.0f}" for k in "mnk")]
        for one in (p, q):
            cells += [short(one[k]) for k in ("forward_us", "backward_us", "backward_first_us")]
        rows.append("    {" + ", ".join(cells) + "},")
    crowded = rates["busy"][-1]
    turns = [f"    {{{p['dtype']}, {p['m']:g}, {short(p['forward_us'])}}}," for p in crowded["points"]
             if p["dtype"] != "fp16"]
    exchange = [f"    {{{e['ranks']}, {e['bytes']}, {short(e['us'])}}}," for e in rates["exchange"]]
    print(f'''// Written by tools/make_typical_rates.py from a calibration of {rates["cpu_model"]}, {rates["cores"]} cores.
#include <array>

#include "lockstep/topology/kernel_rates.h"

namespace lockstep {{
namespace {{

constexpr auto fp32 = config::Dtype::fp32;
constexpr auto bf16 = config::Dtype::bf16;

/// Microseconds of one rank alone, and of one of several that keep all cores busy.
struct Row {{
  Kernel kernel;
  config::Dtype type;
  double m, n, k;
  double forward, backward, backward_first;
  double busy_forward, busy_backward, busy_backward_first;
}};

// clang-format off
constexpr auto kRows = std::to_array<Row>({{
{chr(10).join(rows)}
}});

/// Steps of ranks that take turns on the cores.
struct Crowded {{
  config::Dtype type;
  double blocks, us;
}};

constexpr auto kCrowded = std::to_array<Crowded>({{
{chr(10).join(turns)}
}});

struct Exchange {{
  int ranks;
  std::int64_t bytes;
  double us;
}};

constexpr auto kExchange = std::to_array<Exchange>({{
{chr(10).join(exchange)}
}});
// clang-format on

KernelRates make() {{
  constexpr double kMicro = 1e-6;
  KernelRates rates;
  rates.source = "of a typical core ({rates["cpu_model"]}), not measured here";
  rates.cpu_model = "{rates["cpu_model"]}";
  rates.cores = {rates["cores"]};
  rates.busy = {{{{1, {{}}}}, {{{busy["ranks"]}, {{}}}}, {{{crowded["ranks"]}, {{}}}}}};
  for (const Row& row : kRows) {{
    const std::array<double, 3> size{{row.m, row.n, row.k}};
    rates.busy[0].points.push_back({{row.kernel, row.type, size, row.forward * kMicro,
                                    row.backward * kMicro, row.backward_first * kMicro}});
    rates.busy[1].points.push_back({{row.kernel, row.type, size, row.busy_forward * kMicro,
                                    row.busy_backward * kMicro, row.busy_backward_first * kMicro}});
  }}
  for (const Crowded& row : kCrowded) {{
    rates.busy[2].points.push_back({{Kernel::step, row.type, {{row.blocks, 1, 1}}, row.us * kMicro}});
  }}
  for (const Exchange& row : kExchange) {{
    rates.exchange.push_back({{row.ranks, row.bytes, row.us * kMicro}});
  }}
  return rates;
}}

}}  // namespace

const KernelRates& typical_rates() {{
  static const KernelRates rates = make();
  return rates;
}}

}}  // namespace lockstep''')


main()
