#!/usr/bin/env python3
"""torch.distributed over lockstep beside Gloo, in turns in one run: all_reduce, and steps of DDP and FSDP2.

    tools/with_oracles.sh benchmarks/peers/python_backend.py [--part all_reduce,ddp,fsdp] [--ranks 2] [--steps 8]
                                                             [--pin]

`make python-backend` comes first. Both backends live in the same processes, and every step is made with one and
then with the other, because machines change their speed within seconds. The model is the GPT of common.py with
50,304 tokens and one sequence of 256 a rank. Prints one JSON line a row: medians and their ratio; `alone_us` is the
same step of a rank that exchanges nothing.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

BACKENDS = ("lockstep", "gloo")


def medians(actions, rounds, warm):
    """Seconds of each action, called in turns."""
    times = [[] for _ in actions]
    for i in range(warm + rounds):
        for action, own in zip(actions, times):
            start = time.perf_counter()
            action()
            if i >= warm:
                own.append(time.perf_counter() - start)
    return [statistics.median(own) for own in times]


def row(what, seconds, **more):
    ours, theirs = seconds
    return dict(what=what, lockstep_us=round(ours * 1e6, 2), gloo_us=round(theirs * 1e6, 2),
                ratio=round(ours / theirs, 3), **more)


def all_reduce(groups, options):
    import torch
    import torch.distributed as dist

    rows = []
    for bytes_, rounds, batch in ((4, 15, 200), (256 << 10, 15, 10), (64 << 20, 9, 1)):
        x = torch.ones(bytes_ // 4)

        def several(group):
            for _ in range(batch):
                dist.all_reduce(x, op=dist.ReduceOp.MAX if batch > 1 else dist.ReduceOp.SUM, group=group)

        seconds = medians([lambda g=g: several(g) for g in groups], rounds, 2)
        rows.append(row(f"all_reduce {bytes_} B", [s / batch for s in seconds]))
    return rows


def training(groups, options, wrap, what):
    import torch
    import torch.nn.functional as F
    from common import GPT

    actions = []
    for group in [*groups, None]:
        torch.manual_seed(0)
        model = wrap(GPT(vocab=50304), group)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
        x = torch.randint(50304, (1, 256))
        y = torch.randint(50304, (1, 256))

        def step(model=model, optimizer=optimizer, x=x, y=y):
            F.cross_entropy(model(x).flatten(0, -2), y.flatten()).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        actions.append(step)
    *seconds, alone = medians(actions, options.steps, 2)
    return [row(what, seconds, alone_us=round(alone * 1e6, 2))]


def ddp(groups, options):
    from torch.nn.parallel import DistributedDataParallel

    def wrap(model, group):
        if group is None:
            return model
        return DistributedDataParallel(model, gradient_as_bucket_view=True, process_group=group)

    return training(groups, options, wrap, "DDP step, GPT")


def fsdp(groups, options):
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    def wrap(model, group):
        if group is None:
            return model
        mesh = DeviceMesh.from_group(group, "cpu")
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    return training(groups, options, wrap, "FSDP2 step, GPT")


PARTS = dict(all_reduce=all_reduce, ddp=ddp, fsdp=fsdp)


def run_rank(options):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    rank = int(os.environ["RANK"])
    if options.pin:
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    dist.init_process_group("gloo")
    groups = [dist.new_group(backend=backend) for backend in BACKENDS]
    for part in options.part.split(","):
        for line in PARTS[part](groups, options):
            if rank == 0:
                print(json.dumps(dict(line, ranks=options.ranks)), flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", default="all_reduce,ddp,fsdp")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--pin", action="store_true", help="each rank to one core")
    options = parser.parse_args()
    if "RANK" in os.environ:
        run_rank(options)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(
        os.environ, RANK=str(r), LOCAL_RANK=str(r), WORLD_SIZE=str(options.ranks), MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port), OMP_NUM_THREADS="1")) for r in range(options.ranks)]
    try:
        codes = [rank.wait(timeout=600) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    sys.exit(max(map(abs, codes)))


if __name__ == "__main__":
    main()
