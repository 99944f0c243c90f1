"""Our agents (static_agent_main.cpp, and `lockstep launch`) and torchrun's in one job over its static rendezvous."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

WORKER = """
import json, os, pathlib, sys
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE",
         "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT")
out = pathlib.Path(sys.argv[1]) / f"{os.environ['TORCHELASTIC_RESTART_COUNT']}-{os.environ['LOCAL_RANK']}.json"
out.write_text(json.dumps({name: int(os.environ[name]) for name in names}))
sys.exit(1 if sys.argv[2] == "fails" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 0)
"""


SUM = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
dist.destroy_process_group()
sys.exit(0 if value.item() == 6.0 else 3)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class StaticSessionTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.worker = pathlib.Path(self.folder.name) / "worker.py"
        self.worker.write_text(WORKER)
        self.port = free_port()
        self.started = []

    def tearDown(self):
        for process in self.started:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream:
                    stream.close()
        self.folder.cleanup()

    def agent(self, node, ranks=2, max_restarts=0):
        argv = ["static_agent", str(node), "2", str(self.port), str(ranks), str(max_restarts)]
        self.started.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return self.started[-1]

    def torchrun(self, node, ranks=1, max_restarts=0, worker="succeeds"):
        argv = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(node),
                "--nproc-per-node", str(ranks), "--max-restarts", str(max_restarts), "--rdzv-id", "mixed", "--role",
                "trainer", "--master-addr", "127.0.0.1", "--master-port", str(self.port), str(self.worker),
                self.folder.name, worker]
        self.started.append(subprocess.Popen(argv))
        return self.started[-1]

    def worker_environment(self, restart, local_rank):
        return json.loads((pathlib.Path(self.folder.name) / f"{restart}-{local_rank}.json").read_text())

    def tell(self, agent, word):
        agent.stdin.write(word + "\n")
        agent.stdin.flush()

    def run_together(self, our_node):
        ours, theirs = self.agent(our_node, ranks=2), self.torchrun(1 - our_node, ranks=3)
        round_ = json.loads(ours.stdout.readline())
        begins = [0, 2] if our_node == 0 else [0, 3]
        sizes = [2, 3] if our_node == 0 else [3, 2]
        self.assertEqual(round_["seats"], [[begins[n], sizes[n], "trainer"] for n in (0, 1)])
        self.assertEqual(round_["own_seat"], our_node)
        self.assertEqual(round_["world_size"], 5)
        self.tell(ours, "ok")
        self.assertEqual(theirs.wait(timeout=60), 0)
        self.assertEqual(json.loads(ours.stdout.readline()), {"exit": 0})
        self.assertEqual(ours.wait(timeout=10), 0)
        for local_rank in range(3):
            rank = begins[1 - our_node] + local_rank
            self.assertEqual(self.worker_environment(0, local_rank), {
                "RANK": rank, "LOCAL_RANK": local_rank, "WORLD_SIZE": 5, "GROUP_RANK": 1 - our_node,
                "GROUP_WORLD_SIZE": 2, "ROLE_RANK": rank, "ROLE_WORLD_SIZE": 5, "MASTER_PORT": self.port,
                "TORCHELASTIC_RESTART_COUNT": 0})

    def test_ours_is_node_0(self):
        self.run_together(our_node=0)

    def test_torchruns_is_node_0(self):
        self.run_together(our_node=1)

    def test_both_count_restarts_alike(self):
        for our_node in (0, 1):
            self.port = free_port()
            ours = self.agent(our_node, max_restarts=1)
            theirs = self.torchrun(1 - our_node, max_restarts=1, worker="fails")
            self.assertEqual(json.loads(ours.stdout.readline())["restart_count"], 0)
            self.tell(ours, "failed")  # as ranks do that lose a peer
            self.assertEqual(json.loads(ours.stdout.readline())["restart_count"], 1)
            self.tell(ours, "ok")
            self.assertEqual(theirs.wait(timeout=60), 0)
            self.assertEqual(json.loads(ours.stdout.readline()), {"exit": 0})
            self.assertEqual(self.worker_environment(1, 0)["WORLD_SIZE"], 3)

    def test_a_node_rank_that_torchrun_has_is_refused(self):
        ours = self.agent(0)
        theirs = self.torchrun(1)
        ours.stdout.readline()  # a round: both are there
        second = self.agent(1)
        self.assertEqual(second.wait(timeout=10), 2)
        self.tell(ours, "ok")
        self.assertEqual(theirs.wait(timeout=60), 0)

    def test_ranks_of_both_launchers_form_one_gloo_group(self):
        self.worker.write_text(SUM)
        for our_node in (0, 1):
            self.port = free_port()
            argv = ["lockstep", "launch", "--nnodes", "2", "--node-rank", str(our_node), "--nproc-per-node", "2",
                    "--rdzv-id", "mixed", "--role", "trainer", "--master-addr", "127.0.0.1", "--master-port",
                    str(self.port), str(self.worker)]
            ours = subprocess.Popen(argv, env=dict(os.environ, PYTHON_EXEC=sys.executable))
            self.started.append(ours)
            theirs = self.torchrun(1 - our_node)
            self.assertEqual(ours.wait(timeout=90), 0)
            self.assertEqual(theirs.wait(timeout=90), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
