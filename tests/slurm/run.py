#!/usr/bin/env python3
"""Trains under a real Slurm on this machine: by srun, by the script of `lockstep submit`, and over a requeue.

    tests/slurm/run.py --programs BUILD/bin
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from cluster import Cluster

RUN = """[run]
name = "tiny"
steps = {steps}

[model]
family = "mlp"
layers = {layers}
width = {width}
inputs = 8
classes = 4

[data]
format = "synthetic"
train_samples = 512

[batch]
micro_batch = 8
"""


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = cls.enterClassContext(Cluster())
        cls.cluster.env["PATH"] = f"{PROGRAMS}:{os.environ['PATH']}"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write_run(self, steps, layers=1, width=16):
        (self.folder / "run.toml").write_text(RUN.format(steps=steps, layers=layers, width=width))

    def call(self, *argv, code=0):
        done = subprocess.run(argv, env=self.cluster.env, cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=240)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr + self.cluster.logs())
        return done.stdout + done.stderr

    def summary(self, run_dir):
        return json.loads((self.folder / run_dir / "summary.json").read_text())

    def submit(self, *more):
        """The job's number and log file."""
        script = self.call("lockstep", "submit", "--print", "slurm", "run.toml", "--nproc-per-node", "2", *more)
        (self.folder / "job.sh").write_text(script)
        job = self.call("sbatch", "--parsable", "job.sh").strip()
        self.addCleanup(self.cluster.ask, "scancel", job)
        return job, self.folder / f"tiny-{job}.log"

    def wait_for(self, job, state, log):
        def has_come():
            now = self.cluster.job_state(job)
            if now in ("FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL") and now != state:
                raise AssertionError(f"job {job} is {now}\n{log.read_text() if log.exists() else ''}")
            return now == state

        self.cluster.until(has_come, f"job {job} that is {state}", 180)

    def test_srun_starts_ranks_that_compute_the_same(self):
        self.write_run(steps=6)
        self.call("lockstep", "train", "run.toml", "--nproc-per-node", "2", "--run-dir", "own", "--quiet")
        self.call("srun", "--ntasks=2", "lockstep", "train", "run.toml", "--run-dir", "srun", "--quiet")
        self.assertEqual(self.summary("srun")["state_sha256"], self.summary("own")["state_sha256"])
        self.assertEqual(self.summary("srun")["status"], self.summary("own")["status"])

    def test_the_printed_script_trains(self):
        self.write_run(steps=6)
        job, log = self.submit("--set", "optimizer.lr=0.05")
        self.wait_for(job, "COMPLETED", log)
        self.assertIn(f"start 1 of job {job} on ", log.read_text())
        self.assertEqual(self.summary(f"runs/tiny-{job}")["steps"], 6)

    def test_a_signal_saves_and_requeues_and_training_goes_on_to_the_same_end(self):
        self.write_run(steps=3000, layers=4, width=256)
        self.call("lockstep", "train", "run.toml", "--nproc-per-node", "2", "--run-dir", "own", "--quiet")
        job, log = self.submit()
        events = self.folder / f"runs/tiny-{job}/events.jsonl"
        self.cluster.until(lambda: events.exists() and '"step":20,' in events.read_text(), "20 steps")
        self.call("scancel", "--signal=USR1", job)  # as Slurm does 90 s before the time is up
        self.cluster.until(lambda: f"start 2 of job {job}" in log.read_text(), "a second start", 120)
        self.wait_for(job, "COMPLETED", log)
        self.assertEqual(self.summary(f"runs/tiny-{job}")["steps"], 3000)
        self.assertEqual(self.summary(f"runs/tiny-{job}")["state_sha256"], self.summary("own")["state_sha256"])

    def test_a_script_whose_ranks_fail_fails(self):
        self.write_run(steps=6)
        job, log = self.submit()
        self.wait_for(job, "COMPLETED", log)
        (self.folder / "run.toml").write_text("[run]\nsteps = no\n")
        job = self.call("sbatch", "--parsable", "job.sh").strip()
        log = self.folder / f"tiny-{job}.log"
        self.wait_for(job, "FAILED", log)
        self.assertIn("LS-1002", log.read_text())


def main():
    global PROGRAMS
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    options, more = parser.parse_known_args()
    PROGRAMS = options.programs.resolve()
    unittest.main(argv=[sys.argv[0], "--verbose", *more])


if __name__ == "__main__":
    main()
