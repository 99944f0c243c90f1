"""The GPT of examples/gpt_bible: bits per byte of the held-out text, ours and PyTorch's.

Same blocks, first values, rates, optimizer, precision and number of steps, all read from the example's
run.toml; each side draws its own weights and its own order of samples, so the test averages two seeds.
The test makes the model smaller; `make validate-gpt` runs the example as it is.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib
import unittest

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/gpt_bible/run.toml"
sys.path.insert(0, str(ROOT / "benchmarks/peers"))
from common import GPT  # noqa: E402

RANKS = 2
SMALLER = {
    "run.steps": 200, "model.layers": 3, "model.width": 128, "model.heads": 4, "data.seq_len": 64,
    "batch.micro_batch": 8, "optimizer.lr": 2e-3, "schedule.warmup_steps": 20, "precision.compute": "fp32",
}


class Settings:
    """The example's keys as "section.key", with some of them changed."""

    def __init__(self, changes):
        sections = tomllib.loads(EXAMPLE.read_text())
        self.changes = changes
        self.values = {f"{name}.{key}": value for name, section in sections.items()
                       for key, value in section.items()} | changes

    def __getitem__(self, key):
        return self.values[key]


def ours(settings, seed):
    changes = settings.changes | {"run.seed": seed, "run.eval_every": 0}
    sets = [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["lockstep", "train", str(EXAMPLE), "--nproc-per-node", str(RANKS), "--quiet",
                        "--run-dir", f"{folder}/run", *sets], cwd=ROOT, check=True)
        return json.loads(pathlib.Path(folder, "run/summary.json").read_text())["eval"]["bits_per_byte"]


def init_like_ours(model, layers):
    """Normal with deviation 0.02, residual projections less by the root of their number; biases 0."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            torch.nn.init.zeros_(parameter)
        elif parameter.dim() == 2:
            residual = name.endswith(("o.weight", "f2.weight"))
            torch.nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)


def rate(settings, step):
    peak, final = settings["optimizer.lr"], settings["schedule.final_lr_fraction"]
    warmup, steps = settings["schedule.warmup_steps"], settings["run.steps"]
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup + 1) / (steps - warmup)
    return peak * (final + (1 - final) / 2 * (1 + math.cos(math.pi * progress)))


def windows(part, seq, limit=None):
    """[N, seq + 1]: consecutive samples, each with the byte after it."""
    count = (len(part) - 1) // seq
    count = min(count, limit) if limit else count
    return part[: count * seq + 1].unfold(0, seq + 1, seq).long()


def read_text(settings):
    command = settings["data.train"].removeprefix("!").split()
    printed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    return torch.frombuffer(bytearray(printed), dtype=torch.uint8)


def theirs(settings, seed, threads, progress=lambda step: None):
    torch.manual_seed(seed)
    torch.set_num_threads(threads)
    text, seq, layers = read_text(settings), settings["data.seq_len"], settings["model.layers"]
    held_out = round(len(text) * settings["data.eval_fraction"])
    train, held = windows(text[:-held_out], seq), windows(text[-held_out:], seq, settings["data.eval_samples"])
    model = GPT(vocab=settings["model.vocab_size"], d=settings["model.width"], layers=layers,
                heads=settings["model.heads"], seq=seq)
    init_like_ours(model, layers)
    optimizer = torch.optim.AdamW(model.parameters(), settings["optimizer.lr"],
                                  betas=settings["optimizer.betas"],
                                  weight_decay=settings["optimizer.weight_decay"])
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=settings["precision.compute"] == "bf16")

    def loss_of(samples):
        with autocast:
            logits = model(samples[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), samples[:, 1:].flatten())

    batch = RANKS * settings["batch.micro_batch"]
    order = torch.randperm(len(train))
    for step in range(settings["run.steps"]):
        optimizer.param_groups[0]["lr"] = rate(settings, step)
        optimizer.zero_grad()
        loss_of(train[order[step * batch:(step + 1) * batch]]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["optimizer.clip_grad_norm"])
        optimizer.step()
        progress(step)
    with torch.no_grad():
        return torch.stack([loss_of(part) for part in held.split(32)]).mean().item() / math.log(2)


class GptTest(unittest.TestCase):
    def test_bits_per_byte_are_within_one_percent_of_pytorch(self):
        settings = Settings(SMALLER)
        seeds = (1, 2)
        our_mean = sum(ours(settings, seed) for seed in seeds) / len(seeds)
        their_mean = sum(theirs(settings, seed, threads=1) for seed in seeds) / len(seeds)
        print(f"bits per byte after {settings['run.steps']} steps: ours {our_mean:.4f}, PyTorch {their_mean:.4f}")
        self.assertLess(abs(our_mean / their_mean - 1), 0.01)


def validate_whole_example(seeds):
    settings = Settings({})
    steps = settings["run.steps"]
    print(f"examples/gpt_bible as it is: {steps} steps, {settings['precision.compute']}", flush=True)
    sums = [0.0, 0.0]
    for seed in seeds:
        start = time.monotonic()
        our_bits = ours(settings, seed)
        between = time.monotonic()
        print(f"seed {seed}  lockstep {our_bits:.4f} bits per byte, {between - start:.0f} s", flush=True)

        def progress(step):
            if (step + 1) % 50 == 0:
                spent = time.monotonic() - between
                print(f"  PyTorch step {step + 1}/{steps}, {spent / (step + 1) * (steps - step - 1):.0f} s left",
                      flush=True)

        their_bits = theirs(settings, seed, RANKS, progress)
        print(f"seed {seed}  PyTorch  {their_bits:.4f} bits per byte, {time.monotonic() - between:.0f} s",
              flush=True)
        sums = [sums[0] + our_bits, sums[1] + their_bits]
    ratio = sums[0] / sums[1]
    print(f"ours / PyTorch: {ratio:.4f} (must be within 1 %)")
    return 0 if abs(ratio - 1) < 0.01 else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[1])
    sys.exit(validate_whole_example(parser.parse_args().seeds))
