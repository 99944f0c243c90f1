"""A DistributedDataParallel script as anybody writes it: ddp_script.py BACKEND [float32|float64]

Trains a small convolutional model with BatchNorm for some steps; every rank prints one JSON line with hashes
of its gradients (rounded to fp32), its parameters and the running statistics.
"""

import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 5
BATCH = 4  # samples a rank


def sha256(tensors):
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().to(torch.float32).contiguous().numpy().tobytes())
    return digest.hexdigest()


def make_model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 6000), nn.ReLU(), nn.Linear(6000, 10))


def main():
    backend, dtype = sys.argv[1], getattr(torch, sys.argv[2] if len(sys.argv) > 2 else "float32")
    torch.set_default_dtype(dtype)
    dist.init_process_group(backend)
    rank = dist.get_rank()
    torch.manual_seed(rank)  # DDP makes parameters equal
    model = DDP(make_model(), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    torch.manual_seed(100 + rank)
    losses = []
    for _ in range(STEPS):
        x, y = torch.randn(BATCH, 3, 8, 8), torch.randint(10, (BATCH,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        gradients = [p.grad.clone() for p in model.parameters()]
        optimizer.step()
        losses.append(loss.item())
    print(json.dumps(dict(
        rank=rank, backend=dist.get_backend(), losses=losses, gradients=sha256(gradients),
        parameters=sha256(model.parameters()), statistics=sha256(model.module.buffers()))), flush=True)
    dist.destroy_process_group()
    if sys.argv[1] == "gloo":  # torch 2.11: its threads now and then outlive the interpreter and abort the process
        os._exit(0)


if __name__ == "__main__":
    main()
