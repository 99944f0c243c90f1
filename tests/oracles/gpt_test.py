"""A small GPT on the King James Bible: bits per byte of the held-out text, ours and PyTorch's.

Same blocks, first values, rates, optimizer and number of steps; each side draws its own weights and its
own order of samples, so two seeds are averaged before comparing.
"""

import json
import math
import pathlib
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks/peers"))
from common import GPT  # noqa: E402

LAYERS, WIDTH, HEADS, VOCAB = 3, 128, 4, 256
SEQ, BATCH, STEPS, WARMUP = 64, 16, 200, 20
LR, FINAL_LR, WEIGHT_DECAY, BETAS, CLIP = 2e-3, 0.1, 0.1, (0.9, 0.95), 1.0
EVAL_FRACTION, EVAL_SAMPLES = 0.05, 256
SEEDS = (1, 2)
COMMAND = "bible -f gen1:1-rev22:21"


def ours(seed):
    settings = {
        "run.seed": seed, "run.steps": STEPS, "run.eval_every": 0, "model.layers": LAYERS,
        "model.width": WIDTH, "model.heads": HEADS, "data.train": f"!{COMMAND}", "data.seq_len": SEQ,
        "data.eval_fraction": EVAL_FRACTION, "data.eval_samples": EVAL_SAMPLES,
        "batch.micro_batch": BATCH // 2, "optimizer.lr": LR, "optimizer.weight_decay": WEIGHT_DECAY,
        "schedule.warmup_steps": WARMUP, "schedule.final_lr_fraction": FINAL_LR, "precision.compute": "fp32",
    }
    sets = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["lockstep", "train", "examples/gpt_bible/run.toml", "--nproc-per-node", "2",
                        "--quiet", "--run-dir", f"{folder}/run", *sets], cwd=ROOT, check=True)
        return json.loads(pathlib.Path(folder, "run/summary.json").read_text())["eval"]["bits_per_byte"]


def init_like_ours(model):
    """Normal with deviation 0.02, residual projections less by the root of their number; biases 0."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            residual = name.endswith(("o.weight", "f2.weight"))
            torch.nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS) if residual else 0.02)


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    progress = (step - WARMUP + 1) / (STEPS - WARMUP)
    return LR * (FINAL_LR + (1 - FINAL_LR) / 2 * (1 + math.cos(math.pi * progress)))


def windows(part, limit=None):
    """[N, SEQ + 1]: consecutive samples, each with the byte after it."""
    count = (len(part) - 1) // SEQ
    count = min(count, limit) if limit else count
    return part[: count * SEQ + 1].unfold(0, SEQ + 1, SEQ).long()


def theirs(seed, text):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    held_out = round(len(text) * EVAL_FRACTION)
    train, held = windows(text[:-held_out]), windows(text[-held_out:], EVAL_SAMPLES)
    model = GPT(vocab=VOCAB, d=WIDTH, layers=LAYERS, heads=HEADS, seq=SEQ)
    init_like_ours(model)
    optimizer = torch.optim.AdamW(model.parameters(), LR, betas=BETAS, weight_decay=WEIGHT_DECAY)
    order = torch.randperm(len(train))
    for step in range(STEPS):
        batch = train[order[step * BATCH:(step + 1) * BATCH]]
        optimizer.param_groups[0]["lr"] = rate(step)
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    with torch.no_grad():
        return F.cross_entropy(model(held[:, :-1]).flatten(0, 1), held[:, 1:].flatten()).item() / math.log(2)


class GptTest(unittest.TestCase):
    def test_bits_per_byte_are_within_one_percent_of_pytorch(self):
        printed = subprocess.run(COMMAND.split(), stdin=subprocess.DEVNULL, capture_output=True, check=True)
        text = torch.frombuffer(bytearray(printed.stdout), dtype=torch.uint8)
        our_mean = sum(ours(seed) for seed in SEEDS) / len(SEEDS)
        their_mean = sum(theirs(seed, text) for seed in SEEDS) / len(SEEDS)
        print(f"bits per byte after {STEPS} steps: ours {our_mean:.4f}, PyTorch {their_mean:.4f}")
        self.assertLess(abs(our_mean / their_mean - 1), 0.01)


if __name__ == "__main__":
    unittest.main(verbosity=2)
