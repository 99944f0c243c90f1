"""Trains small models with PyTorch DDP on 2 ranks and writes what came out, for pytorch_parity_test.cpp.

    ORACLE_PYTHON tests/parity/make_fixtures.py tests/parity/fixtures           # the committed ones
    ORACLE_PYTHON tests/parity/make_fixtures.py --full FOLDER                   # GPT 6x384, for test-oracles

Weights and data come from one integer hash that both sides compute, so a fixture holds only results:
the loss of each step, and the final parameters (all, or every stride-th element of the vector of all
parameters in name order). The metadata carries PyTorch's difference to itself: the same split of the
batch in one process of two threads, gradients added there.
"""
import os, sys, tempfile
import numpy as np
import torch, torch.nn as nn, torch.nn.functional as F
import torch.distributed as dist, torch.multiprocessing as mp
from safetensors.torch import save_file

STEPS, BATCH, RANKS = 10, 32, 2
CASES = {
    "mlp": dict(family="mlp", layers=3, width=256, optimizer="sgd", lr=0.05, stride=4),
    # At a usual rate BatchNorm amplifies one unit in the last place of the weights to 1 % of the loss in
    # ten steps, in PyTorch too; at this rate ten steps still say whether the gradients are the same.
    "resnet20": dict(family="resnet", depth=20, optimizer="sgd", lr=1e-4, stride=4),
    "gpt": dict(family="gpt", layers=2, width=64, heads=4, vocab_size=96, seq_len=32,
                optimizer="adamw", lr=1e-3, stride=1),
    # torch.amp: autocast to float16 and GradScaler as they are when nothing is said.
    "mlp_fp16": dict(family="mlp", layers=3, width=256, optimizer="sgd", lr=0.05, compute="fp16", steps=15,
                     stride=64),
    "resnet20_fp16": dict(family="resnet", depth=20, optimizer="sgd", lr=1e-4, compute="fp16", stride=64),
    "gpt_fp16": dict(family="gpt", layers=2, width=64, heads=4, vocab_size=96, seq_len=32, optimizer="adamw",
                     lr=1e-3, compute="fp16", steps=30, stride=16),
}
FULL = {"gpt_full": dict(family="gpt", layers=6, width=384, heads=6, vocab_size=128, seq_len=256,
                         optimizer="adamw", lr=1e-3, stride=16, batch=4)}


def hashed(key, count):
    """lowbias32 by Chris Wellons over key + index: uniform 32-bit integers."""
    x = np.arange(count, dtype=np.uint64) * 2654435761 + key
    x = (x & 0xFFFFFFFF).astype(np.uint32)
    x ^= x >> 16
    x *= np.uint32(0x7FEB352D)
    x ^= x >> 15
    x *= np.uint32(0x846CA68B)
    x ^= x >> 16
    return x


def fnv1a(text):
    h = 2166136261
    for c in text.encode():
        h = ((h ^ c) * 16777619) & 0xFFFFFFFF
    return h


def initial(name, shape):
    n = int(np.prod(shape))
    if len(shape) == 1:
        return torch.full(shape, 1.0 if name.endswith(".weight") else 0.0)
    bound = 1.0 / np.sqrt(n // shape[0])
    u = hashed(fnv1a(name), n).astype(np.float64) / 2.0**32 - 0.5
    return torch.from_numpy((2 * bound * u).astype(np.float32)).view(shape)


class Mlp(nn.Module):
    def __init__(s, c):
        super().__init__()
        s.layers = nn.ModuleList(nn.Linear(784 if i == 0 else c["width"], c["width"]) for i in range(c["layers"]))
        s.head = nn.Linear(c["width"], 10)

    def forward(s, x):
        for l in s.layers: x = F.relu(l(x))
        return s.head(x)

    def named(s):
        for i, l in enumerate(s.layers):
            for k, p in l.named_parameters(): yield f"layers.{i}.fc.{k}", p
        for k, p in s.head.named_parameters(): yield f"head.fc.{k}", p


class ResBlock(nn.Module):
    def __init__(s, i, o, stride):
        super().__init__()
        s.conv1, s.bn1 = nn.Conv2d(i, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        s.conv2, s.bn2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        s.change = stride != 1 or i != o
        if s.change: s.shortcut_conv, s.shortcut_bn = nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o)

    def forward(s, x):
        y = s.bn2(s.conv2(F.relu(s.bn1(s.conv1(x)))))
        return F.relu(y + (s.shortcut_bn(s.shortcut_conv(x)) if s.change else x))


class ResNet20(nn.Module):
    def __init__(s, c):
        super().__init__()
        s.conv, s.bn = nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        s.stages, w = nn.ModuleDict(), 16
        for k, o in enumerate((16, 32, 64)):
            for j in range(3):
                s.stages[f"stage{k + 1}_{j}"] = ResBlock(w, o, 2 if k and j == 0 else 1); w = o
        s.fc = nn.Linear(64, 10)

    def forward(s, x):
        x = F.relu(s.bn(s.conv(x)))
        for b in s.stages.values(): x = b(x)
        return s.fc(x.mean((2, 3)))

    def named(s):
        yield "stem.conv.weight", s.conv.weight
        for k, p in s.bn.named_parameters(): yield f"stem.bn.{k}", p
        for b, m in s.stages.items():
            for k, p in m.named_parameters(): yield f"{b.replace('_', '.')}.{k}", p
        for k, p in s.fc.named_parameters(): yield f"head.fc.{k}", p


class GptBlock(nn.Module):
    def __init__(s, d, h):
        super().__init__()
        s.h = h
        s.ln1, s.qkv, s.proj = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        s.ln2, s.fc1, s.fc2 = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(s, x):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, s.h, d // s.h).transpose(1, 2) for z in s.qkv(s.ln1(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + s.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + s.fc2(F.gelu(s.fc1(s.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(s, c):
        super().__init__()
        d = c["width"]
        s.wte, s.wpe = nn.Embedding(c["vocab_size"], d), nn.Embedding(c["seq_len"], d)
        s.blocks = nn.ModuleList(GptBlock(d, c["heads"]) for _ in range(c["layers"]))
        s.ln = nn.LayerNorm(d)

    def forward(s, ix):
        x = s.wte(ix) + s.wpe(torch.arange(ix.shape[1]))
        for b in s.blocks: x = b(x)
        return s.ln(x) @ s.wte.weight.T

    def named(s):
        yield "embed.wte.weight", s.wte.weight
        yield "embed.wpe.weight", s.wpe.weight
        for i, b in enumerate(s.blocks):
            for k, p in b.named_parameters(): yield f"blocks.{i}.{k}", p
        for k, p in s.ln.named_parameters(): yield f"head.ln.{k}", p


MODELS = {"mlp": Mlp, "resnet": ResNet20, "gpt": Gpt}


def make(c):
    torch.manual_seed(0)
    m = MODELS[c["family"]](c)
    with torch.no_grad():
        for name, p in m.named(): p.copy_(initial(name, tuple(p.shape)))
    return m.to(memory_format=torch.channels_last) if c["family"] == "resnet" else m


def batch(c, step, first, count):
    """Samples [first, first + count) of a step's batch."""
    ids = [step * 100000 + first + i for i in range(count)]
    if c["family"] == "gpt":
        t = c["seq_len"] + 1
        x = np.stack([hashed(i * 7919 + 17, t) % c["vocab_size"] for i in ids]).astype(np.int64)
        x = torch.from_numpy(x)
        return x[:, :-1].contiguous(), x[:, 1:].contiguous()
    x = np.stack([hashed(i * 7919 + 17, 784).astype(np.float64) / 2.0**32 - 0.5 for i in ids])
    y = [int(hashed(i * 7919 + 17, 785)[784] % 10) for i in ids]
    column = np.arange(784) % 28
    x += np.stack([(column * (c + 1) // 14) % 2 for c in y])
    x, y = torch.from_numpy(x.astype(np.float32)), torch.tensor(y)
    if c["family"] == "resnet":
        x = x.view(-1, 1, 28, 28).contiguous(memory_format=torch.channels_last)
    return x, y


def optimizer(c, m):
    if c["optimizer"] == "adamw":
        return torch.optim.AdamW(m.parameters(), c["lr"], weight_decay=0.01)
    return torch.optim.SGD(m.parameters(), c["lr"], momentum=0.9, weight_decay=5e-4)


def loss_of(c, net, x, y):
    with torch.autocast("cpu", torch.float16, enabled="compute" in c):
        out = net(x)
    return F.cross_entropy(out.float().flatten(0, -2), y.flatten())


def scaler(c):
    return torch.amp.GradScaler("cpu", enabled="compute" in c)


def update(scale, opt):
    scale.step(opt); scale.update(); opt.zero_grad()


def flat(m):
    return torch.cat([p.detach().contiguous().flatten() for _, p in sorted(m.named(), key=lambda n: n[0])])


def train_split(c):
    """One process, the batch in RANKS parts, gradients added."""
    m = make(c); opt = optimizer(c, m); losses = []; size = c.get("batch", BATCH); scale = scaler(c)
    for step in range(c.get("steps", STEPS)):
        total = 0.0
        for r in range(RANKS):
            x, y = batch(c, step, r * size // RANKS, size // RANKS)
            l = loss_of(c, m, x, y) / RANKS; scale.scale(l).backward(); total += l.item()
        update(scale, opt); losses.append(total)
    return losses, flat(m)


def train_ddp(rank, c, store, out):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    m = make(c); opt = optimizer(c, m); losses = []; size = c.get("batch", BATCH); scale = scaler(c)
    net = nn.parallel.DistributedDataParallel(m, broadcast_buffers=False)
    for step in range(c.get("steps", STEPS)):
        x, y = batch(c, step, rank * size // RANKS, size // RANKS)
        l = loss_of(c, net, x, y); scale.scale(l).backward(); update(scale, opt)
        mean = l.detach().clone(); dist.all_reduce(mean); losses.append(mean.item() / RANKS)
    if rank == 0: torch.save((losses, flat(m)), out)
    dist.destroy_process_group()


def main():
    full = "--full" in sys.argv
    folder = sys.argv[-1]
    torch.set_num_threads(1)
    for name, c in (FULL if full else CASES).items():
        with tempfile.TemporaryDirectory() as d:
            mp.spawn(train_ddp, (c, f"{d}/store", f"{d}/out"), nprocs=RANKS)
            losses, final = torch.load(f"{d}/out")
        torch.set_num_threads(2)  # another order of sums
        self_losses, self_final = train_split(c)
        torch.set_num_threads(1)
        meta = {k: str(v) for k, v in c.items()}
        meta["batch"] = str(c.get("batch", BATCH))
        meta["self_parameters"] = repr(((self_final - final).norm() / final.norm()).item())
        meta["self_losses"] = repr(max(abs(a - b) / b for a, b in zip(self_losses, losses)))
        meta["change"] = repr(((final - flat(make(c))).norm() / final.norm()).item())
        meta["torch"] = torch.__version__.split("+")[0]
        tensors = {"losses": torch.tensor(losses, dtype=torch.float64),
                   "parameters": final[::c["stride"]].clone()}
        path = os.path.join(folder, name + ".safetensors")
        save_file(tensors, path, meta)
        print(path, os.path.getsize(path), losses[0], losses[-1], meta["self_losses"], meta["self_parameters"])


if __name__ == "__main__":
    main()
