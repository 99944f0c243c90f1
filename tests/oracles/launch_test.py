"""Unmodified PyTorch scripts under torchrun and under `lockstep launch`: the same results, the same environment."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = str(HERE / "launch_script.py")
LOCKSTEP = [os.path.join(os.environ["LOCKSTEP_BIN"], "lockstep"), "launch"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
C10D = ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]
DEADLINE_S = 120
# Of a launch and not of what it starts: ports, files and names that differ from one to the next, and what
# Python's own start leaves in torchrun's process.
OF_ONE_LAUNCH = {"MASTER_PORT", "TORCHELASTIC_ERROR_FILE", "LC_CTYPE", "_"}


def run(launcher, *words, **env):
    own = {key: value for key, value in os.environ.items() if not key.startswith("PET_")}
    return subprocess.run([*launcher, *map(str, words)], text=True, timeout=DEADLINE_S, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=dict(own, PYTHON_EXEC=sys.executable, **env))


def lines(done):
    """The JSON documents of all ranks, by rank; ranks print in any order, and torchrun's may share a line."""
    found, at, decoder = [], done.stdout.find("{"), json.JSONDecoder()
    while at >= 0:
        document, end = decoder.raw_decode(done.stdout, at)
        found.append(document)
        at = done.stdout.find("{", end)
    return sorted(found, key=lambda line: (int(line["rank"]), line.get("restarts", 0)))


class LaunchTest(unittest.TestCase):

    def both(self, *words, code=0, **env):
        results = []
        for launcher in (TORCHRUN, LOCKSTEP):
            done = run(launcher, *words, **env)
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
            results.append(lines(done))
        self.assertGreater(len(results[0]), 0)
        return results

    def test_ddp_over_gloo_gives_the_same_bits(self):
        theirs, ours = self.both("--nproc-per-node", 2, HERE / "ddp_script.py", "gloo")
        self.assertEqual(theirs, ours)

    def test_env_initialisation_meets(self):
        for words in ([], ["--standalone"], C10D):
            theirs, ours = self.both(*words, "--nproc_per_node=2", SCRIPT, "env_init")
            self.assertEqual(theirs, ours)
            self.assertEqual(ours[1], dict(rank=1, world=2, value=[3.0, 3.0, 3.0]))

    def test_an_elastic_program_is_started_again(self):
        for restarts, code in ((3, 0), (1, 1)):
            results = []
            for launcher in (TORCHRUN, LOCKSTEP):
                with tempfile.TemporaryDirectory() as folder:
                    done = run(launcher, *C10D, "--nproc-per-node", 2, "--max-restarts", restarts, "--rdzv-id", "job7",
                               SCRIPT, "elastic", MEETING_FOLDER=folder)
                self.assertEqual(done.returncode, code, done.stderr)
                results.append(lines(done))
            self.assertEqual(*results)
            self.assertEqual([line["restarts"] for line in results[1]], [*range(min(restarts, 2) + 1)] * 2)

    def test_a_restarted_group_meets_anew(self):
        # Under torchrun 2.11 it does not: ranks find the addresses of the earlier round in its store.
        done = run(LOCKSTEP, "--nproc-per-node", 2, "--max-restarts", 3, SCRIPT, "elastic_group")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(line["rank"], line["sum"]) for line in lines(done)],
                         [(rank, 2 * restarts) for rank in (0, 1) for restarts in (0, 1, 2)])

    def test_ranks_share_the_launchers_store(self):
        theirs, ours = self.both("--nproc-per-node", 3, SCRIPT, "store")
        self.assertEqual(theirs, ours)

    def test_every_variable_and_argument_is_the_same(self):
        words = ["--nproc-per-node", 2, "--max-restarts", 2, "--role", "trainer", "--rdzv-id", "job",
                 "--signals-to-handle", "SIGTERM,SIGUSR1", SCRIPT, "environment", "--x=${local_rank}", "$$", "-m"]
        theirs, ours = self.both(*words, OMP_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="")
        for one, other in zip(theirs, ours, strict=True):
            self.assertEqual(one["arguments"], other["arguments"])
            for key in (one["environment"].keys() | other["environment"].keys()) - OF_ONE_LAUNCH:
                self.assertEqual(one["environment"].get(key), other["environment"].get(key), key)

    def test_a_module_a_run_path_and_a_program_run_as_there(self):
        for words in (["-m", "this"], ["--run-path", SCRIPT, "environment"],
                      ["--no-python", sys.executable, SCRIPT, "environment"]):
            outputs = []
            for launcher in (TORCHRUN, LOCKSTEP):
                done = run(launcher, *words, PYTHONPATH=str(HERE))
                self.assertEqual(done.returncode, 0, done.stderr)
                outputs.append(lines(done)[0]["arguments"] if "environment" in words else done.stdout)
            self.assertEqual(*outputs)

    def test_pet_variables_stand_for_flags(self):
        theirs, ours = self.both(SCRIPT, "env_init", PET_NPROC_PER_NODE="2", PET_STANDALONE="1", PET_NNODES="1")
        self.assertEqual(theirs, ours)
        self.assertEqual(len(ours), 2)

    def test_the_log_tree_and_the_prefix_are_the_same(self):
        trees = []
        for launcher in (TORCHRUN, LOCKSTEP):
            with tempfile.TemporaryDirectory() as folder:
                done = run(launcher, "--nproc-per-node", 2, "--log-dir", folder, "--tee", "0:3,1:2", "-r", "1:1",
                           "--role", "t", "--rdzv-id", "job", "--duplicate-stdout-filters", "number 0",
                           "--no-python", "sh", "-c", "echo number $RANK; echo error $RANK >&2")
                self.assertEqual(done.returncode, 0, done.stderr)
                files = {}
                for path in sorted(pathlib.Path(folder).rglob("*.log")):
                    _, *below = path.relative_to(folder).parts  # torchrun adds a random part to the run id
                    files["/".join(below)] = path.read_text()
                shown = sorted(line for line in (done.stdout + done.stderr).splitlines() if line.startswith("[t"))
                trees.append((files, shown, done.stdout))
        self.assertEqual(*trees)
        self.assertEqual(trees[1][0]["attempt_0/filtered_stdout.log"], "[t0]:number 0\n")

    def test_an_error_that_torch_records_is_reported(self):
        for launcher in (TORCHRUN, LOCKSTEP):
            done = run(launcher, "--nproc-per-node", 2, SCRIPT, "record")
            self.assertEqual(done.returncode, 1)
            self.assertIn("ValueError: no data for rank 1", done.stderr.split("rank ")[-1] + done.stderr)
        self.assertRegex(done.stderr, r"launch_script.py failed: rank 1 ended with exit code 1")
        self.assertRegex(done.stderr, r"error file  /\S+/attempt_0/1/error.json")

    def test_every_flag_of_torchruns_help_is_accepted_in_both_spellings(self):
        help_text = run(TORCHRUN, "--help").stdout
        values = dict(nnodes="1", nproc_per_node="1", rdzv_backend="c10d", rdzv_endpoint="localhost:0", rdzv_id="x",
                      rdzv_conf="timeout=9", max_restarts="1", monitor_interval="0.2", start_method="fork",
                      event_log_handler="null", role="r", log_dir="/dev/null", redirects="0", tee="0",
                      local_ranks_filter="0", duplicate_stdout_filters="a", duplicate_stderr_filters="a",
                      node_rank="0", master_addr="127.0.0.1", master_port="0", local_addr="127.0.0.1",
                      logs_specs="x", numa_binding="node", signals_to_handle="SIGTERM")
        targets = dict(module="this", no_python="true")
        switches = {"standalone", "module", "no_python", "run_path", "virtual_local_rank"}
        rows = re.findall(r"^  (-.*)$", help_text[help_text.index("options:"):], re.MULTILINE)
        names = set(re.findall(r"--([a-z][a-z_-]+)", "\n".join(rows))) - {"help"}
        known = {name.replace("-", "_") for name in names}
        self.assertEqual(known, set(values) | switches)
        for name in known:
            for spelling in {name, name.replace("_", "-")}:
                words = [f"--{spelling}"] if name in switches else [f"--{spelling}", values[name]]
                done = run(LOCKSTEP, *words, "--dry-run", targets.get(name, SCRIPT))
                self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        own_help = run(LOCKSTEP, "--help").stdout
        for name in known:
            self.assertIn("--" + name.replace("_", "-"), own_help)

    def test_a_small_launch_takes_no_time(self):
        times = []
        for _ in range(5):
            start = time.monotonic()
            self.assertEqual(run(LOCKSTEP, "--nproc-per-node", 2, "--no-python", "true").returncode, 0)
            times.append(time.monotonic() - start)
        self.assertLess(min(times), 0.25)  # the bar is 0.05 s on a quiet machine
        print(f"launch --nproc-per-node 2 --no-python true: {min(times) * 1000:.1f} ms", flush=True)


if __name__ == "__main__":
    unittest.main()
