#!/usr/bin/env python3
"""Times lockstep beside PyTorch DDP: same model, batch, precision, 2 ranks, one thread each.

Alternates the two sides several times on this machine and compares samples / median step. Absolute
rates drift from minute to minute, so each ratio is taken between neighbours in time.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "benchmarks/peers"
DEPS = pathlib.Path(os.environ.get("LOCKSTEP_DEPS", pathlib.Path.home() / ".cache/lockstep"))
TORCHRUN = DEPS / "oracle-venv/bin/torchrun"
RANKS = 2
DEADLINE_S = 300

# work: the peer's arguments, its extra environment, and how many first steps are left out
WORKS = {
    "resnet18-bf16": (["resnet", "bf16"], {}, 3),
    "gpt-bf16": (["gpt", "bf16"], {}, 3),
    "gpt-fp32": (["gpt"], {}, 3),
    "gpt-vocab": (["gpt", "bf16"], {"VOCAB": "50304"}, 3),
    "gpt-vocab-1": (["gpt", "bf16"], {"VOCAB": "50304", "BS": "1"}, 3),
    "mlp": (["mlp"], {}, 50),
    "mlp-small": (["mlp"], {"WIDTH": "64", "BS": "16"}, 50),
}


def environment(extra=None):
    """One thread a rank, and nothing of a surrounding job."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "OMPI_", "PMI_"))}
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        kept.pop(name, None)
    return {**kept, "OMP_NUM_THREADS": "1", **(extra or {})}


def fail(what, output=""):
    sys.exit(f"bench_peers: {what}\n{output}")


def run(argv, env):
    """Standard output of a command; ends this script when it fails."""
    done = subprocess.run(argv, env=env, cwd=ROOT, text=True, capture_output=True, timeout=DEADLINE_S)
    if done.returncode != 0:
        fail(f"exit {done.returncode}: {' '.join(map(str, argv))}", done.stdout + done.stderr)
    return done.stdout


def peer_command(arguments):
    return [TORCHRUN, "--standalone", "--nproc-per-node", str(RANKS), PEERS / "ddp.py", *arguments]


def our_command(lockstep, work, run_dir, *settings):
    sets = [part for setting in settings for part in ("--set", setting)]
    return [lockstep, "train", f"benchmarks/peers/{work}.toml", "--nproc-per-node", str(RANKS),
            "--json", "--run-dir", run_dir, *sets]


def peer_per_s(work):
    arguments, extra, _ = WORKS[work]
    lines = run(peer_command(arguments), environment(extra)).splitlines()
    return next(json.loads(line)["per_s"] for line in lines if line.startswith("{"))


def step_lines(run_dir):
    path = pathlib.Path(run_dir) / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in events if "step_s" in event]


def our_per_s(lockstep, work):
    warm_up = WORKS[work][2]
    with tempfile.TemporaryDirectory() as folder:
        run_dir = f"{folder}/run"
        run(our_command(lockstep, work, run_dir), environment())
        steps = step_lines(run_dir)[warm_up:]
    return steps[0]["samples"] / statistics.median(step["step_s"] for step in steps)


def seconds_until(argv, env, reached):
    """Seconds from starting a command until reached(what it printed) holds."""
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(argv, env=env, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            while not reached(output):
                if process.poll() not in (None, 0) or time.perf_counter() - start > DEADLINE_S:
                    output.seek(0)
                    fail(f"no first step: {' '.join(map(str, argv))}", output.read())
                time.sleep(0.002)
            return time.perf_counter() - start
        finally:
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def startup_s(lockstep, work="mlp"):
    """Command to first finished step: (ours, peer)."""
    def printed(output):
        output.seek(0)
        return "first step done" in output.read()

    peer = seconds_until(peer_command(WORKS[work][0]), environment({"ONE_STEP": "1"}), printed)
    with tempfile.TemporaryDirectory() as folder:
        run_dir = f"{folder}/run"

        def recorded(_):
            try:
                return bool(step_lines(run_dir))
            except (OSError, json.JSONDecodeError):
                return False

        ours = seconds_until(our_command(lockstep, work, run_dir, "run.steps=1"), environment(), recorded)
    return ours, peer


def compare(lockstep, works, rounds, note):
    """work -> [(ours, peer), ...]; who goes first changes every round."""
    pairs = {work: [] for work in works}
    for number in range(rounds):
        for work in works:
            sides = [lambda: our_per_s(lockstep, work), lambda: peer_per_s(work)]
            first = number % 2
            one, other = sides[first](), sides[1 - first]()
            pairs[work].append((one, other) if first == 0 else (other, one))
            note(f"round {number + 1} of {rounds}: {work:14s} ours {pairs[work][-1][0]:10.1f}/s"
                 f"  peer {pairs[work][-1][1]:10.1f}/s")
    return pairs


def medians(values):
    ours = statistics.median(a for a, _ in values)
    peer = statistics.median(b for _, b in values)
    ratios = sorted(a / b for a, b in values)
    return ours, peer, ratios


def print_table(pairs):
    print(f"\n{'work':14s} {'ours/s':>10s} {'DDP/s':>10s} {'ratio: min':>11s} {'median':>7s} {'max':>6s}")
    for work, values in pairs.items():
        ours, peer, ratios = medians(values)
        print(f"{work:14s} {ours:10.1f} {peer:10.1f} {ratios[0]:11.2f} {statistics.median(ratios):7.2f}"
              f" {ratios[-1]:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--works", default=",".join(WORKS), help="comma-separated (default: all)")
    parser.add_argument("--lockstep", default=ROOT / "build/release/bin/lockstep")
    parser.add_argument("--json", action="store_true", help="JSON lines on standard output")
    options = parser.parse_args()
    works = options.works.split(",")
    unknown = [work for work in works if work not in WORKS]
    if unknown:
        parser.error(f"unknown works {unknown}; known: {', '.join(WORKS)}")
    if not TORCHRUN.exists():
        fail(f"{TORCHRUN} is missing; run tools/setup.sh --oracles")

    pairs = compare(options.lockstep, works, options.rounds, lambda text: print(text, file=sys.stderr))
    if options.json:
        for work, values in pairs.items():
            ours, peer, _ = medians(values)
            print(json.dumps({"work": work, "ours_per_s": round(ours, 2), "peer_per_s": round(peer, 2),
                              "ratio": round(ours / peer, 4)}))
        return
    starts = [startup_s(options.lockstep) for _ in range(options.rounds)]
    print_table(pairs)
    ours, peer = (statistics.median(side) for side in zip(*starts))
    print(f"\nfrom command to first finished step (mlp): ours {ours:.2f} s, torchrun {peer:.2f} s")


if __name__ == "__main__":
    main()
