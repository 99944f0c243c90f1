"""Folders of DeepSpeed read by `lockstep ckpt`. PyTorch writes the files as DeepSpeed lays them out: flat partitions of
each group (ZeRO 1 and 2), or of each parameter (ZeRO 3), with its classes by name."""

import collections
import dataclasses
import enum
import math
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import safetensors.torch
import torch


def stand_in(module, name, bases=(), members=None):
    """A class that pickles as DeepSpeed's."""
    for depth in range(1, module.count(".") + 2):
        part = ".".join(module.split(".")[:depth])
        sys.modules.setdefault(part, types.ModuleType(part))
    made = enum.IntEnum(name, members) if members else type(name, bases, {})
    made.__module__, made.__qualname__ = module, name
    setattr(sys.modules[module], name, made)
    return made


ZeroStage = stand_in("deepspeed.runtime.zero.config", "ZeroStageEnum",
                     members={"disabled": 0, "optimizer_states": 1, "gradients": 2, "weights": 3})
LossScaler = stand_in("deepspeed.runtime.fp16.loss_scaler", "LossScaler")


@dataclasses.dataclass
class Fragment:
    numel: int
    start: int


Fragment.__module__, Fragment.__qualname__ = "deepspeed.utils.tensor_fragment", "fragment_address"
stand_in("deepspeed.utils.tensor_fragment", "tensor_fragment")
sys.modules["deepspeed.utils.tensor_fragment"].fragment_address = Fragment


def lockstep(*words):
    done = subprocess.run(["lockstep", "ckpt", *map(str, words)], text=True, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def flat_partitions(tensors, ranks):
    """Of ZeRO 1 and 2: one vector, filled up to a multiple of 2 x ranks and cut; the filling is not saved."""
    flat = torch.cat([tensor.float().reshape(-1) for tensor in tensors])
    padding = -flat.numel() % (2 * ranks)
    parts = list(torch.cat([flat, torch.zeros(padding)]).chunk(ranks))
    return [part.clone() for part in parts], padding


def parameter_parts(tensors, ranks):
    """Of ZeRO 3: each parameter in parts of equal length, a rank's parts one behind the other."""
    parts = [[] for _ in range(ranks)]
    for tensor in tensors:
        length = math.ceil(tensor.numel() / ranks)
        filled = torch.cat([tensor.float().reshape(-1), torch.zeros(length * ranks - tensor.numel())])
        for rank in range(ranks):
            parts[rank].append(filled[rank * length:(rank + 1) * length])
    return [torch.cat(of_rank) if of_rank else torch.zeros(0) for of_rank in parts]


class DeepSpeedDirsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "in"
        self.tag = self.path / "global_step12"
        self.tag.mkdir(parents=True)
        (self.path / "latest").write_text("global_step12")
        self.out = self.path.with_name("out.safetensors")
        self.groups = [
            {"embed.weight": torch.randn(7, 5), "layer.0.weight": torch.randn(3, 4), "scale": torch.randn(())},
            {"layer.0.bias": torch.randn(11), "norm": torch.randn(2)},
        ]
        self.moments = {kind: [{name: torch.randn(t.shape) for name, t in group.items()} for group in self.groups]
                        for kind in ("exp_avg", "exp_avg_sq")}
        self.buffers = {"mean": torch.randn(3).half(), "count": torch.tensor(5)}
        self.frozen = {"frozen.weight": torch.randn(3, 3).bfloat16()}

    def wanted(self):
        wanted = {name: tensor for group in self.groups for name, tensor in group.items()}
        for kind, groups in self.moments.items():
            wanted |= {f"{name}/{kind}": tensor for group in groups for name, tensor in group.items()}
        return wanted | self.buffers | self.frozen

    def model_state(self, rank, ranks, stage):
        shapes = [collections.OrderedDict((name, t.shape) for name, t in group.items()) for group in self.groups]
        module = {name: (t.bfloat16() if stage < 3 else torch.empty(0, dtype=torch.bfloat16))
                  for group in self.groups for name, t in group.items()}
        module["head.weight"] = module["embed.weight"]
        fragments = self.frozen
        if stage == 3:
            fragments = {name: torch.cat([t.reshape(-1), t.new_zeros(-t.numel() % ranks)]).chunk(ranks)[rank].clone()
                         for name, t in self.frozen.items()}
        return {"module": collections.OrderedDict(module | self.buffers | fragments),
                "buffer_names": list(self.buffers), "optimizer": None, "param_shapes": shapes,
                "frozen_param_shapes": {name: tensor.shape for name, tensor in self.frozen.items()},
                "frozen_param_fragments": fragments, "shared_params": {"head.weight": "embed.weight"},
                "lr_scheduler": {"last_batch_iteration": 11}, "data_sampler": None, "random_ltd": None,
                "sparse_tensor_module_names": set(), "skipped_steps": 0, "global_steps": 12, "global_samples": 96,
                "dp_world_size": ranks, "mp_world_size": 1, "ds_config": {"train_batch_size": 8},
                "ds_version": "0.18.2"}

    def state(self, flat):
        return {"state": {i: {"step": torch.tensor(12.0)} | {kind: flats[i] for kind, flats in flat.items()}
                          for i in range(len(self.groups))},
                "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "params": [i]} for i in range(len(self.groups))]}

    def save(self, stage, ranks, prefix=""):
        split = parameter_parts if stage == 3 else lambda tensors, count: flat_partitions(tensors, count)[0]
        flats = {kind: [split(list(group.values()), ranks) for group in groups]
                 for kind, groups in (("fp32", self.groups), *self.moments.items())}
        for rank in range(ranks):
            of_rank = {kind: [group[rank] for group in groups] for kind, groups in flats.items()}
            weights = of_rank.pop("fp32")
            optim = {"loss_scaler": LossScaler(), "dynamic_loss_scale": False, "overflow": False,
                     "zero_stage": ZeroStage(stage), "ds_version": "0.18.2"}
            if stage == 3:
                optim |= {"partition_count": ranks, "fp32_flat_groups": weights,
                          "optimizer_state_dict": self.state(of_rank)}
            else:
                if rank == ranks - 1:
                    for i, group in enumerate(self.groups):
                        padding = flat_partitions(list(group.values()), ranks)[1]
                        weights[i] = weights[i][:weights[i].numel() - padding].clone()
                optim |= {"partition_count": [ranks] * len(self.groups), "single_partition_of_fp32_groups": weights,
                          "base_optimizer_state": self.state(of_rank), "clip_grad": 0.0,
                          "param_slice_mappings": [{"norm": Fragment(2, 0)}]}
            torch.save({"optimizer_state_dict": optim, "ds_config": {}, "ds_version": "0.18.2"},
                       self.tag / f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
            if stage == 3:
                torch.save(self.model_state(rank, ranks, stage),
                           self.tag / f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        if stage < 3:
            torch.save(self.model_state(0, ranks, stage), self.tag / "mp_rank_00_model_states.pt")

    def expect_converted(self, path):
        code, _, message = lockstep("convert", path, self.out, "--force")
        self.assertEqual(code, 0, message)
        found = safetensors.torch.load_file(self.out)
        wanted = self.wanted()
        self.assertEqual(set(found) - {"head.weight"}, set(wanted))
        for name, tensor in wanted.items():
            self.assertEqual(found[name].dtype, tensor.dtype, name)
            self.assertTrue(torch.equal(found[name], tensor), name)

    def test_zero_1_and_2_are_merged(self):
        for stage, ranks, prefix in ((1, 1, ""), (1, 2, "bf16_"), (2, 3, ""), (2, 4, "bf16_")):
            with self.subTest(stage=stage, ranks=ranks):
                for file in self.tag.iterdir():
                    file.unlink()
                self.save(stage, ranks, prefix)
                self.expect_converted(self.path)
                self.expect_converted(self.tag)

    def test_zero_3_is_merged(self):
        for ranks in (1, 2, 3, 5):
            with self.subTest(ranks=ranks):
                for file in self.tag.iterdir():
                    file.unlink()
                self.save(3, ranks)
                self.expect_converted(self.path)

    def test_a_missing_rank_is_named(self):
        self.save(2, 3)
        (self.tag / "zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
        code, _, message = lockstep("inspect", self.path)
        self.assertEqual(code, 4)
        self.assertIn("LS-5020", message)
        self.assertIn("rank 1", message)


if __name__ == "__main__":
    unittest.main()
