"""Folders of torch.distributed.checkpoint read by `lockstep ckpt` and written by it, against PyTorch itself."""

import os
import pickle
import unittest

import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from ckpt_program import DTYPES, CkptTest, lockstep, some

def layouts(mesh):
    """Name -> tensor in full, and how it lies on the ranks of a mesh of one or two axes."""
    torch.manual_seed(3)
    last = [Replicate()] * (mesh.ndim - 1)
    return {
        "rows": (torch.randn(8, 6), [*last, Shard(0)]), "uneven": (torch.randn(7, 3), [*last, Shard(0)]),
        "columns": (torch.randn(6, 9), [*last, Shard(1)]), "middle": (torch.randn(3, 8, 5), [*last, Shard(1)]),
        "few": (torch.randn(1, 4), [*last, Shard(0)]), "whole": (torch.randn(5, 5), [*last, Replicate()]),
        "both": (torch.randn(8, 8), [Shard(0), Shard(1)][-mesh.ndim:]),
    }


def save_on_rank(rank, world_size, mesh_shape, folder):
    dist.init_process_group("gloo", f"file://{folder}.meeting", rank=rank, world_size=world_size)
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=("replica", "shard")[-len(mesh_shape):])
    state = {name: distribute_tensor(full, mesh, places) for name, (full, places) in layouts(mesh).items()}
    dcp.save({"model": state, "step": 7}, checkpoint_id=folder)
    dist.destroy_process_group()


class MeshOf:
    def __init__(self, ndim):
        self.ndim = ndim


class DcpTest(CkptTest):
    def test_every_dtype_is_read(self):
        tensors = {str(dtype): some(dtype, 3, 5) for dtype in DTYPES}
        tensors |= {"scalar": torch.tensor(7), "empty": torch.zeros(0, 3), "view": torch.randn(4, 6)[1:3, ::2].t()}
        dcp.save(tensors, checkpoint_id=self.path, no_dist=True)
        self.expect_same(self.converted(), tensors)

    def test_a_model_and_its_optimizer_are_read_by_dotted_names(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model(torch.randn(6, 4)).sum().backward()
        optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
        dcp.save(state, checkpoint_id=self.path, no_dist=True)
        metadata = dcp.FileSystemReader(self.path).read_metadata()
        wanted = {}
        for name, path in metadata.planner_data.items():
            value = state
            for key in path:
                value = value[int(key)] if isinstance(value, dict) and key not in value else value[key]
            if isinstance(value, torch.Tensor):
                wanted[name] = value
        self.assertIn("model.0.weight", wanted)
        self.expect_same(self.converted(), wanted)

    def test_chunks_of_ranks_are_put_together(self):
        for number, (mesh_shape, world_size) in enumerate([((3,), 3), ((4,), 4), ((2, 2), 4)]):
            self.path = self.base / f"in{number}"
            mp.spawn(save_on_rank, (world_size, mesh_shape, str(self.path)), nprocs=world_size)
            wanted = {f"model.{name}": full for name, (full, _) in layouts(MeshOf(len(mesh_shape))).items()}
            self.expect_same(self.converted(), wanted)

    def test_pytorch_loads_what_is_written(self):
        tensors = {str(dtype): some(dtype, 3, 5) for dtype in DTYPES}
        tensors |= {"empty": torch.zeros(0, 3), "s": torch.tensor(2)}
        safetensors.torch.save_file(tensors, self.out)
        code, _, message = lockstep("convert", self.out, self.path, "--to", "dcp", "--force")
        self.assertEqual(code, 0, message)
        found = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
        dcp.load(found, checkpoint_id=self.path, no_dist=True)
        self.expect_same(found, tensors)
        dcp_to_torch_save(self.path, self.base / "one.pt")
        self.expect_same(torch.load(self.base / "one.pt", weights_only=True), tensors)

    def test_what_is_written_is_read_back(self):
        tensors = {"a": torch.randn(3, 4), "b": some(torch.bfloat16, 5)}
        safetensors.torch.save_file(tensors, self.out)
        self.assertEqual(lockstep("convert", self.out, self.path, "--to", "dcp", "--force")[0], 0)
        self.expect_same(self.converted(), tensors)

    def test_missing_and_cut_files_are_named(self):
        dcp.save({"w": torch.randn(100)}, checkpoint_id=self.path, no_dist=True)
        data = next(self.path.glob("*.distcp"))
        data.write_bytes(data.read_bytes()[:-50])
        self.assertIn("LS-5020", self.refusal())
        data.unlink()
        message = self.refusal()
        self.assertIn("LS-5020", message)
        self.assertIn(data.name, message)

    def test_a_metadata_that_runs_something_runs_nothing(self):
        evil = self.base / "evil"

        class Evil:
            def __reduce__(self):
                return os.system, (f"touch {evil}",)

        dcp.save({"w": torch.randn(3)}, checkpoint_id=self.path, no_dist=True)
        for protocol in (2, 4):
            (self.path / ".metadata").write_bytes(pickle.dumps(Evil(), protocol=protocol))
            self.assertIn("LS-5013", self.refusal())
            self.assertFalse(evil.exists())


if __name__ == "__main__":
    unittest.main()
