#!/usr/bin/env python3
"""Times lockstep beside PyTorch DDP: same model, batch, precision, 2 ranks, one thread each.

DDP runs in its best mode, eager or compiled, found by one run of each. Then the two sides alternate several
times on this machine, and samples / median step are compared. Absolute rates drift from minute to minute, so
each ratio is taken between neighbours in time.
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
DEADLINE_S = 900  # a first compilation takes minutes
PEER_MODES = {"eager": [], "compile": ["compile"]}

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

# what starts: the peer's work, and a configuration of as much
STARTS = [("mlp", "benchmarks/peers/mlp.toml"), ("gpt-bf16", "examples/gpt_bible/run.toml")]


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


def config_of(work):
    return f"benchmarks/peers/{work}.toml"


def our_command(lockstep, config, run_dir, *settings):
    sets = [part for setting in settings for part in ("--set", setting)]
    return [lockstep, "train", config, "--nproc-per-node", str(RANKS),
            "--json", "--run-dir", run_dir, *sets]


def peer_run(work, mode):
    """What ddp.py prints: per_s, rss_mib, ..."""
    arguments, extra, _ = WORKS[work]
    lines = run(peer_command([*arguments, *PEER_MODES[mode]]), environment(extra)).splitlines()
    return next(json.loads(line) for line in lines if line.startswith("{"))


def best_mode(work, modes, note):
    """DDP's faster mode for this work."""
    if len(modes) == 1:
        return modes[0]
    rates = {mode: peer_run(work, mode)["per_s"] for mode in modes}
    note(f"DDP's modes: {work:14s} " + "  ".join(f"{mode} {rate:.1f}/s" for mode, rate in rates.items()))
    return max(rates, key=rates.get)


def step_lines(run_dir):
    path = pathlib.Path(run_dir) / "events.jsonl"
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in events if "step_s" in event]


def our_run(lockstep, work, *settings, extra=None):
    """Rate (median step), peak memory and MFU of one run of ours; `quiet_step_s` is the lower quartile."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = f"{folder}/run"
        run(our_command(lockstep, config_of(work), run_dir, *settings), environment(extra))
        steps = step_lines(run_dir)[WORKS[work][2]:]
        summary = json.loads((pathlib.Path(run_dir) / "summary.json").read_text())
    times = sorted(step["step_s"] for step in steps)
    step_s = statistics.median(times)
    # The rank that comes last waits for the exchange alone, the others for that rank too.
    waits = [min(step["per_rank"]["wait_s"]) for step in steps if "per_rank" in step]
    return {"per_s": steps[0]["samples"] / step_s, "quiet_step_s": times[len(times) // 4], "mfu": summary["mfu"],
            "waited_s": statistics.median(waits), "rss_mib": max(summary["peak_memory_bytes"]) / 2**20}


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


def startup_s(lockstep, work, config):
    """Command to first finished step: (ours, peer's with as much work)."""
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

        ours = seconds_until(our_command(lockstep, config, run_dir, "run.steps=1"), environment(), recorded)
    return ours, peer


def compare(lockstep, works, modes, rounds, note):
    """work -> (DDP's mode, [(ours, peer), ...]); who goes first changes every round."""
    pairs = {work: (best_mode(work, modes, note), []) for work in works}
    for number in range(rounds):
        for work, (mode, values) in pairs.items():
            sides = [lambda: our_run(lockstep, work), lambda: peer_run(work, mode)]
            first = number % 2
            one, other = sides[first](), sides[1 - first]()
            values.append((one, other) if first == 0 else (other, one))
            note(f"round {number + 1} of {rounds}: {work:14s} ours {values[-1][0]['per_s']:10.1f}/s"
                 f"  DDP {values[-1][1]['per_s']:10.1f}/s")
    return pairs


def row(work, mode, values):
    """The figures of one work: medians over the rounds."""
    def median(side, key):
        return statistics.median(pair[side][key] for pair in values)

    ratios = sorted(ours["per_s"] / peer["per_s"] for ours, peer in values)
    return {"work": work, "mode": mode, "ours_per_s": round(median(0, "per_s"), 2),
            "peer_per_s": round(median(1, "per_s"), 2), "ratio_min": round(ratios[0], 3),
            "ratio": round(statistics.median(ratios), 3), "ratio_max": round(ratios[-1], 3),
            "mfu": round(median(0, "mfu"), 3), "ours_mib": round(median(0, "rss_mib")),
            "peer_mib": round(median(1, "rss_mib"))}


def print_table(rows):
    print(f"\n{'work':14s} {'ours/s':>10s} {'DDP/s':>10s} {'mode':>8s} {'ratio: min':>11s} {'median':>7s} {'max':>6s}"
          f" {'MFU':>6s} {'MiB':>6s} {'DDP MiB':>8s}")
    for r in rows:
        print(f"{r['work']:14s} {r['ours_per_s']:10.1f} {r['peer_per_s']:10.1f} {r['mode']:>8s}"
              f" {r['ratio_min']:11.2f} {r['ratio']:7.2f} {r['ratio_max']:6.2f} {r['mfu']:6.1%}"
              f" {r['ours_mib']:6d} {r['peer_mib']:8d}")


def exposed(lockstep, work, rounds):
    """Seconds that a step waits for its exchange, that it takes longer than without one, and that an all_reduce of
    its gradients takes alone."""
    plan = json.loads(run([lockstep, "plan", config_of(work), "--json"], environment()))
    waited, longer, alone = [], [], []
    for number in range(rounds):
        sides = ["auto", "fake"]
        runs = {name: our_run(lockstep, work, "run.steps=23", extra={"LOCKSTEP_BACKEND": name})
                for name in sides[::1 if number % 2 == 0 else -1]}
        waited.append(runs["auto"]["waited_s"])
        longer.append(runs["auto"]["quiet_step_s"] - runs["fake"]["quiet_step_s"])
        lines = run([lockstep, "bench", "comm", "--ranks", str(RANKS), "--op", "all_reduce", "--json",
                     "--sizes", str(4 * plan["parameters"])], environment()).splitlines()
        alone.append(json.loads(lines[0])["time_us"]["median"] / 1e6)
    return statistics.median(waited), statistics.median(longer), statistics.median(alone)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--works", default=",".join(WORKS), help="comma-separated (default: all)")
    parser.add_argument("--modes", default=",".join(PEER_MODES), help="of DDP, of which the faster counts (default: all)")
    parser.add_argument("--lockstep", default=ROOT / "build/release/bin/lockstep")
    parser.add_argument("--json", action="store_true", help="JSON lines on standard output")
    options = parser.parse_args()
    works = options.works.split(",")
    unknown = [work for work in works if work not in WORKS]
    if unknown:
        parser.error(f"unknown works {unknown}; known: {', '.join(WORKS)}")
    if not TORCHRUN.exists():
        fail(f"{TORCHRUN} is missing; run tools/setup.sh --oracles")

    pairs = compare(options.lockstep, works, options.modes.split(","), options.rounds, lambda text: print(text, file=sys.stderr))
    rows = [row(work, mode, values) for work, (mode, values) in pairs.items()]
    if options.json:
        for one in rows:
            print(json.dumps(one))
        return
    print_table(rows)
    print()
    for work, config in STARTS:
        starts = [startup_s(options.lockstep, work, config) for _ in range(options.rounds + 2)]
        ours, peer = (sorted(side) for side in zip(*starts))
        print(f"from command to first finished step ({config}): ours {statistics.median(ours):.2f} s"
              f" ({ours[0]:.2f} to {ours[-1]:.2f}), torchrun {statistics.median(peer):.2f} s ({work})")
    for work in ("gpt-bf16", "gpt-fp32"):
        waited, longer, alone = exposed(options.lockstep, work, 2 * options.rounds + 1)
        print(f"exposed synchronisation ({work}): waited {1e3 * waited:.2f} ms a step, {waited / alone:.0%} of the"
              f" {1e3 * alone:.1f} ms of an all_reduce of its gradients alone; with the work of adding them, and ranks"
              f" out of step, a step takes {1e3 * longer:.1f} ms longer than without exchange")


if __name__ == "__main__":
    main()
