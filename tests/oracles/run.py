#!/usr/bin/env python3
"""Runs tests/oracles/*_test.py: what we write and compute against PyTorch, safetensors and numpy.

Each file runs in a process of its own, with the built programs on PATH. Totals come last; the exit code
is 1 when a test failed, was skipped, or a file held none.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
FILE_DEADLINE_S = 600
TOTALS = "totals:"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return unittest.defaultTestLoader.loadTestsFromModule(module)


def run_one(path):
    """In the file's own process: runs its tests and prints how many there were and failed."""
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(load(path))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(TOTALS, result.testsRun, failed + len(result.skipped), flush=True)


def run_file(path, programs):
    """(tests, failed) of one file; a crash or the deadline counts as one failure."""
    env = dict(os.environ, TORCH_CPP_LOG_LEVEL="ERROR", PYTHONPATH=str(HERE), LOCKSTEP_BIN=str(programs),
               PATH=os.pathsep.join([str(programs), str(programs / "oracles"), os.environ["PATH"]]))
    try:
        done = subprocess.run([sys.executable, __file__, "--one", str(path)], env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=FILE_DEADLINE_S)
        output = done.stdout
    except subprocess.TimeoutExpired as expired:
        output = (expired.stdout or b"").decode(errors="replace") + "killed by the deadline\n"
    sys.stdout.write(output)
    last = [line for line in output.splitlines() if line.startswith(TOTALS)]
    tests, failed = map(int, last[-1].split()[1:]) if last else (0, 1)
    return tests, max(failed, 0 if tests else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=pathlib.Path, default=HERE.parents[1] / "build/release/bin")
    parser.add_argument("--only", default="", help="run only the files whose name contains this")
    parser.add_argument("--one", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options.one)
        return
    rows = []
    for path in sorted(HERE.glob("*_test.py")):
        if options.only in path.name:
            print(f"== {path.name}", flush=True)
            start = time.monotonic()
            rows.append((path.name, *run_file(path, options.programs.resolve()), time.monotonic() - start))
    print("\n== test-oracles")
    for name, tests, failed, seconds in rows:
        print(f"{name:32s} {tests:4d} tests {failed:3d} failed {seconds:7.1f} s")
    failed = sum(row[2] for row in rows)
    print(f"{'in all':32s} {sum(row[1] for row in rows):4d} tests {failed:3d} failed")
    sys.exit(1 if failed or not rows else 0)


if __name__ == "__main__":
    main()
