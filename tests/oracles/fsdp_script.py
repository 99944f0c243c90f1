"""A few steps of FSDP2 (fully_shard) with AdamW: fsdp_script.py BACKEND; every rank prints its losses as JSON."""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import fully_shard


def main():
    dist.init_process_group(sys.argv[1])
    rank = dist.get_rank()
    torch.manual_seed(0)
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))
    blocks = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(3)]
    model = nn.Sequential(*blocks, nn.Linear(64, 7))  # 7 rows do not divide evenly
    for block in model:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(100 + rank)
    losses = []
    for _ in range(4):
        x, y = torch.randn(16, 64), torch.randint(7, (16,))
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    full = [p.full_tensor().double().sum().item() for p in model.parameters()]
    print(json.dumps(dict(rank=rank, losses=losses, full=full)), flush=True)
    dist.destroy_process_group()
    if sys.argv[1] == "gloo":  # torch 2.11: its threads now and then outlive the interpreter and abort the process
        os._exit(0)


if __name__ == "__main__":
    main()
