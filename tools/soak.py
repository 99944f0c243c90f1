#!/usr/bin/env python3
"""Kills and resumes one training run over and over; its end must equal the undisturbed run's.

Each round trains in a fresh run directory: the front or a rank is killed at a random moment (SIGKILL or
SIGTERM), the same command is started again, until it ends by itself. A round fails when the state's hash
differs, the program hangs, ends as a bug, or leaves a process behind.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
HANG_S = 60
ORPHAN_S = 5
SETTINGS = ["run.epochs=2", "data.train_samples=32768", "data.eval_samples=1000", "checkpoint.every=20",
            "parallel.virtual_ranks=2", "batch.micro_batch=32", "batch.global_batch=64"]


def command(lockstep, run_dir):
    sets = [part for setting in SETTINGS for part in ("--set", setting)]
    return [lockstep, "train", "examples/mlp/run.toml", "--nproc-per-node", "2", "--run-dir", run_dir, *sets]


def ranks_of(front_pid):
    """Process ids whose parent is the front."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except (OSError, IndexError):
            continue
        if parent == front_pid:
            found.append(int(entry.name))
    return found


def alive(pids):
    def running(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
        except OSError:
            return False

    return [pid for pid in pids if running(pid)]


class Round:
    """One run directory, from its first start to its own end."""

    def __init__(self, lockstep, folder, rng):
        self.lockstep, self.rng = lockstep, rng
        self.run_dir = f"{folder}/run"
        self.log = open(f"{folder}/log", "w+")

    def fail(self, what):
        self.log.seek(0)
        sys.exit(f"soak: {what}\n{self.log.read()[-6000:]}")

    def start(self):
        return subprocess.Popen(command(self.lockstep, self.run_dir), cwd=ROOT, stdin=subprocess.DEVNULL,
                                stdout=self.log, stderr=subprocess.STDOUT,
                                env={**os.environ, "OMP_NUM_THREADS": "1"})

    def finish(self, front, ranks):
        try:
            code = front.wait(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            front.kill()
            self.fail(f"no end within {HANG_S} s")
        deadline = time.monotonic() + ORPHAN_S
        while alive(ranks) and time.monotonic() < deadline:
            time.sleep(0.02)
        if alive(ranks):
            self.fail(f"ranks {alive(ranks)} outlived the front by {ORPHAN_S} s")
        if code == 70:
            self.fail("ended as a bug (exit 70)")
        return code

    def disturb(self, longest_s):
        """Starts the run and kills something; True when it had ended well before."""
        front = self.start()
        end = time.monotonic() + self.rng.uniform(0.2, longest_s)
        while front.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        ranks = ranks_of(front.pid)
        if front.poll() is None:
            target = self.rng.choice([front.pid, *ranks])
            os.kill(target, self.rng.choice([signal.SIGKILL, signal.SIGTERM]))
        return self.finish(front, ranks) == 0

    def state_sha256(self):
        return json.loads(pathlib.Path(self.run_dir, "summary.json").read_text())["state_sha256"]


def undisturbed(lockstep):
    with tempfile.TemporaryDirectory() as folder:
        run = Round(lockstep, folder, random.Random(0))
        start = time.monotonic()
        front = run.start()
        code = run.finish(front, [])
        if code != 0:
            run.fail(f"the undisturbed run ended with {code}")
        return run.state_sha256(), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments and victims")
    parser.add_argument("--lockstep", default=ROOT / "build/release/bin/lockstep")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    wanted, run_s = undisturbed(options.lockstep)
    print(f"soak: seed {options.seed}; the undisturbed run takes {run_s:.1f} s, state {wanted[:12]}", flush=True)
    rng = random.Random(options.seed)
    rounds = kills = 0
    while time.monotonic() < end:
        with tempfile.TemporaryDirectory() as folder:
            run = Round(options.lockstep, folder, rng)
            while not run.disturb(1.2 * run_s):
                kills += 1
            if run.state_sha256() != wanted:
                run.fail(f"round {rounds + 1}: state {run.state_sha256()}, undisturbed {wanted}")
        rounds += 1
        print(f"soak: {rounds} rounds, {kills} kills, all equal", flush=True)


if __name__ == "__main__":
    main()
