"""The backend "lockstep" of torch.distributed (python/lockstep_c10d), driven by unmodified PyTorch beside Gloo."""

import json
import math
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
DEADLINE_S = 120


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(arguments, ranks, **env):
    """Starts `python ARGUMENTS` once a rank; they meet through MASTER_ADDR as under torchrun."""
    port = free_port()
    processes = []
    for rank in range(ranks):
        own = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                   MASTER_PORT=str(port), OMP_NUM_THREADS="1", **env)
        processes.append(subprocess.Popen([sys.executable, *arguments], env=own, text=True, stdout=subprocess.PIPE,
                                          stderr=subprocess.STDOUT))
    return processes


def finish(processes):
    """[(exit code, output)] of every rank; all are ended at the deadline."""
    end = time.monotonic() + DEADLINE_S
    results = []
    try:
        for process in processes:
            output, _ = process.communicate(timeout=max(1, end - time.monotonic()))
            results.append((process.returncode, output))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
            process.stdout.close()
    return results


PROLOGUE = """
import os, sys, time, datetime, torch, torch.distributed as dist
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.set_num_threads(1)
"""


class PythonBackendTest(unittest.TestCase):
    def succeed(self, arguments, ranks, **env):
        results = finish(start(arguments, ranks, **env))
        for rank, (code, output) in enumerate(results):
            self.assertEqual(code, 0, f"rank {rank} of {arguments[:2]}:\n{output}")
        return [output for _, output in results]

    def run_text(self, text, ranks=2, init='dist.init_process_group("lockstep")\n', end="dist.destroy_process_group()\n"):
        return self.succeed(["-c", PROLOGUE + init + text + "\n" + end], ranks)

    def reports(self, script, ranks, *arguments):
        outputs = self.succeed([str(HERE / script), *arguments], ranks)
        return [json.loads([line for line in output.splitlines() if line.startswith("{")][-1]) for output in outputs]

    def test_importing_torch_or_the_package_registers_the_backend(self):
        for text in ("import torch, torch.distributed as d", "import lockstep_c10d, torch.distributed as d"):
            check = text + "; assert 'lockstep' in d.Backend.backend_list; print(d.Backend('lockstep'))"
            done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual((done.returncode, done.stdout), (0, "lockstep\n"), done.stderr)

    def test_ddp_on_two_ranks_has_the_bits_of_gloo(self):
        ours, theirs = (self.reports("ddp_script.py", 2, backend) for backend in ("lockstep", "gloo"))
        for a, b in zip(ours, theirs):
            self.assertEqual(a.pop("backend"), "lockstep")
            self.assertEqual(b.pop("backend"), "gloo")
            self.assertEqual(a, b)
        self.assertEqual(ours[0]["gradients"], ours[1]["gradients"])

    def test_ddp_on_four_ranks_has_the_gradients_of_gloo(self):
        # Gloo adds four terms in another order; in double the difference is below the rounding to fp32.
        ours, theirs = (self.reports("ddp_script.py", 4, backend, "float64") for backend in ("lockstep", "gloo"))
        self.assertEqual({report["gradients"] for report in ours}, {report["gradients"] for report in theirs})
        self.assertEqual(len({report["gradients"] for report in ours}), 1)
        self.assertEqual(len({report["parameters"] for report in ours}), 1)
        for a, b in zip(ours, theirs):
            self.assertEqual(a["statistics"], b["statistics"])

    def test_fsdp2_trains_as_over_gloo(self):
        for ranks in (2, 4):
            ours, theirs = (self.reports("fsdp_script.py", ranks, backend) for backend in ("lockstep", "gloo"))
            for a, b in zip(ours, theirs):
                for key in ("losses", "full"):
                    for x, y in zip(a[key], b[key]):
                        # fp32 sums in another order, over four steps of AdamW
                        self.assertTrue(math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-4), (ranks, key, a, b))

    def test_a_script_without_destroy_process_group_ends_well(self):
        self.run_text("x = torch.ones(100000)\nfor _ in range(20): dist.all_reduce(x)\n"
                      "dist.broadcast(x, 0)\nassert x[0] == 2.0 ** 20 or world != 2", end="")

    def test_send_and_recv(self):
        self.run_text("""
peer = 1 - rank
for n in (1, 1000, 1000000):
    x, y = torch.full((n,), float(rank)), torch.empty(n)
    works = [dist.isend(x, peer), dist.irecv(y, peer)]
    if rank: works.reverse()
    for work in works: work.wait()
    assert (y == peer).all()
x = torch.arange(6.)
if rank == 0:
    dist.send(x, 1, tag=5); dist.send(x * 2, 1, tag=6)
else:
    y = torch.empty(6); dist.recv(y, 0, tag=6); assert torch.equal(y, x * 2)
    assert dist.recv(y, tag=5) == 0; assert torch.equal(y, x)
objects = [None, None] if rank else ["a" * 100000, {"k": 1}]
(dist.recv_object_list if rank else dist.send_object_list)(objects, peer)
assert objects[1] == {"k": 1}
ops = [dist.P2POp(dist.isend, x, peer), dist.P2POp(dist.irecv, torch.empty(6), peer)]
for work in dist.batch_isend_irecv(ops): work.wait()
""")

    def test_collectives_of_every_kind(self):
        self.run_text("""
def like(v, *s): return torch.full(s, float(v))
out = torch.empty(world * 3); dist.all_gather_into_tensor(out, like(rank, 3))
assert out.view(world, 3)[:, 0].tolist() == list(range(world))
part = torch.empty(3); dist.reduce_scatter_tensor(part, out, op=dist.ReduceOp.AVG); assert part[0] == rank
parts = [torch.empty(2) for _ in range(world)]; dist.all_gather(parts, like(rank, 2)); assert parts[2][0] == 2
dist.reduce_scatter(part, [like(r, 3) for r in range(world)]); assert part[0] == world * rank
dist.scatter(part, [like(r, 3) for r in range(world)] if rank == 1 else None, src=1); assert part[0] == rank
got = [torch.empty(3) for _ in range(world)] if rank == 2 else None
dist.gather(part, got, dst=2); assert rank != 2 or [int(g[0]) for g in got] == list(range(world))
sent = [rank + r for r in range(world)]  # uneven
got = torch.empty(sum(rank + r for r in range(world)), 2)
dist.all_to_all_single(got, like(rank, sum(sent), 2), [rank + r for r in range(world)], sent)
assert got[-1, 0] == world - 1
lists = [torch.empty(r + 1) for r in range(world)]
dist.all_to_all(lists, [like(rank, rank + 1) for r in range(world)]); assert lists[2].tolist() == [2, 2, 2]
for op, value in ((dist.ReduceOp.MAX, world - 1), (dist.ReduceOp.MIN, 0), (dist.ReduceOp.PRODUCT, 0)):
    x = torch.tensor([rank]); dist.all_reduce(x, op=op); assert x.item() == value
x = torch.tensor([1 << rank]); dist.all_reduce(x, op=dist.ReduceOp.BOR); assert x.item() == (1 << world) - 1
x = torch.tensor([1 + 2j * rank]); dist.all_reduce(x); assert x.item() == world + 1j * world * (world - 1)
x = torch.full((3,), True); dist.broadcast(x, 0); dist.reduce(part, 0); dist.barrier()
objects = [None] * world; dist.all_gather_object(objects, {"rank": rank}); assert objects[1] == {"rank": 1}
groups = [dist.new_group([0, 1]), dist.new_group([1, 2])]
for group in groups:
    if dist.get_rank(group) >= 0:
        x = torch.ones(5); dist.all_reduce(x, group=group); assert x[0] == 2
work = dist.all_reduce(torch.ones(400000), async_op=True)
assert work.get_future().then(lambda f: f.value()[0][7].item()).wait() == world
""", ranks=3)

    def test_communication_hooks_see_the_reduced_bucket(self):
        self.run_text("""
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
torch.manual_seed(0)
for hook in (default_hooks.allreduce_hook, default_hooks.bf16_compress_hook):
    model = DDP(torch.nn.Linear(300, 300)); model.register_comm_hook(None, hook)
    for _ in range(3):
        model.zero_grad(); (model(torch.full((4, 300), rank + 1.)).sum()).backward()
    assert torch.allclose(model.module.weight.grad, torch.full((300, 300), 6.)), model.module.weight.grad
""")

    def test_a_dtype_mismatch_raises_on_all_ranks(self):
        outputs = self.run_text("""
try:
    dist.all_reduce(torch.ones(8, dtype=torch.float32 if rank else torch.int32))
    print("a value was returned")
except dist.DistBackendError as error:
    print(error)
""", ranks=3)
        for output in outputs:
            self.assertIn("all_reduce (sum) of 8 int32", output)
            self.assertIn("all_reduce (sum) of 8 float32", output)
            self.assertIn("rank 0 entered", output)

    def test_a_killed_rank_is_an_error_in_the_others_at_once(self):
        processes = start(["-c", PROLOGUE + """
dist.init_process_group("lockstep")
start = time.monotonic()
try:
    dist.barrier()
    if rank == 1: os.kill(os.getpid(), 9)
    for _ in range(100000): dist.all_reduce(torch.ones(4))
except dist.DistBackendError as error:
    print(error, "\\nafter", time.monotonic() - start, flush=True)
os._exit(0)
"""], 3)
        results = finish(processes)
        self.assertEqual(results[1][0], -9)
        for rank in (0, 2):
            code, output = results[rank]
            self.assertEqual(code, 0, output)
            self.assertIn("rank 1", output)
            self.assertLess(float(output.rsplit("after", 1)[1]), 5)

    def test_wrong_arguments_are_value_errors_and_end_nothing(self):
        self.run_text("""
for call in (lambda: dist.all_reduce(torch.ones(2), op=dist.ReduceOp.BAND),
             lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), op=dist.ReduceOp.AVG),
             lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3))):
    try: call()
    except ValueError as error: assert "lockstep" in str(error)
    else: raise AssertionError(call)
dist.all_reduce(torch.ones(2))
""")

    def test_groups_can_be_made_again_over_the_same_store(self):
        with tempfile.TemporaryDirectory() as folder:
            self.run_text("""
for _ in range(3):
    dist.init_process_group("lockstep", store=store, rank=rank, world_size=world)
    x = torch.ones(70000); dist.all_reduce(x); assert x[-1] == world
    dist.destroy_process_group()
""", init=f"store = dist.FileStore({os.path.join(folder, 'store')!r}, world)\n", end="")


if __name__ == "__main__":
    unittest.main(verbosity=2)
