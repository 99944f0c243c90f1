"""Files of torch.save read by `lockstep ckpt` and written by it, against PyTorch itself."""

import argparse
import collections
import datetime
import json
import os
import pathlib
import pickle
import subprocess
import sys
import unittest
import zipfile

import safetensors.torch
import torch

import ckpt_program
from ckpt_program import CkptTest, lockstep, some

DTYPES = [*ckpt_program.DTYPES, torch.complex64]

def views():
    """Tensors of one storage each, seen in every way."""
    base = torch.randn(40, 50)
    return {
        "plain": base.clone(), "transposed": base.clone().t(), "columns": base.clone()[3:30:2, 5:40:3],
        "row": base.clone()[7], "expanded": torch.tensor([1.0, 2.0]).unsqueeze(1).expand(2, 5),
        "permuted": torch.randn(3, 4, 5).permute(2, 0, 1), "scalar": torch.tensor(7), "empty": torch.zeros(0, 4),
        "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "windows": torch.arange(12.0).unfold(0, 4, 2), "large": torch.randn(700, 500).t(),
    }


class Evil:
    def __init__(self, call, *args):
        self.made_by = (call, args)

    def __reduce__(self):
        return self.made_by


class TorchFilesTest(CkptTest):
    NAME = "in.pt"

    def test_every_dtype_of_both_formats_is_read(self):
        tensors = {str(dtype): some(dtype, 3, 5) for dtype in DTYPES}
        torch.save(tensors, self.path)
        self.expect_same(self.converted(), tensors)

    def test_every_protocol_is_read(self):
        for protocol in range(2, 6):
            tensors = {"a": torch.randn(3), "b": collections.OrderedDict(c=torch.randn(2, 2))}
            torch.save(tensors, self.path, pickle_protocol=protocol)
            self.expect_same(self.converted(), {"a": tensors["a"], "b.c": tensors["b"]["c"]})

    def test_views_are_read_row_major(self):
        torch.save(views(), self.path)
        self.expect_same(self.converted(), torch.load(self.path))

    def test_a_model_and_its_optimizer_are_read_by_dotted_names(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        model(torch.randn(6, 4)).sum().backward()
        optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, self.path)
        wanted = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
        for index, state in optimizer.state_dict()["state"].items():
            wanted |= {f"optimizer.state.{index}.{name}": tensor for name, tensor in state.items()}
        self.expect_same(self.converted(), wanted)
        report = json.loads(lockstep("inspect", self.path, "--json")[1])
        self.assertEqual({tensor["name"] for tensor in report["tensors"]}, set(wanted))
        self.assertIn("epoch", json.dumps(report))

    def test_parameters_and_buffers_are_tensors(self):
        tensors = {"p": torch.nn.Parameter(torch.randn(2, 3)), "b": torch.nn.Buffer(torch.randn(4))}
        torch.save(tensors, self.path)
        self.expect_same(self.converted(), tensors)

    def test_what_is_no_tensor_is_left_out_and_does_not_disturb(self):
        torch.save({"w": torch.ones(2), "args": argparse.Namespace(a=pathlib.Path("x")), "when": datetime.datetime.now(),
                    "rng": torch.get_rng_state(), "count": collections.Counter("abc"), "raw": b"abc", "set": {1, 2},
                    "sparse": torch.eye(3).to_sparse(), "meta": torch.zeros(3, device="meta"), "big": 2**70,
                    "quantized": torch.quantize_per_tensor(torch.randn(4), 0.1, 0, torch.qint8)}, self.path)
        self.assertEqual(set(self.converted()), {"w", "rng"})

    def test_pytorch_reads_what_is_written(self):
        tensors = {str(dtype): some(dtype, 3, 5) for dtype in DTYPES} | {"empty": torch.zeros(0, 3), "s": torch.tensor(2)}
        safetensors.torch.save_file(tensors, self.out)
        code, _, message = lockstep("convert", self.out, self.path, "--force")
        self.assertEqual(code, 0, message)
        for options in ({"weights_only": True}, {"weights_only": False}, {"weights_only": True, "mmap": True}):
            self.expect_same(torch.load(self.path, **options), tensors)
        self.assertIsNone(zipfile.ZipFile(self.path).testzip())

    def test_offsets_are_those_that_pytorch_computes(self):
        torch.save({f"w{i}": torch.randn(i) for i in range(70)}, self.path)
        copy = self.path.with_name("copy.pt")
        self.assertEqual(lockstep("convert", self.path, copy)[0], 0)
        script = ("import torch, sys; from torch.utils.serialization import config; "
                  "config.load.calculate_storage_offsets = True; torch.load(sys.argv[1], mmap=True)")
        env = dict(os.environ, TORCH_SERIALIZATION_DEBUG="1")  # compares each with the one in the file
        subprocess.run([sys.executable, "-c", script, str(copy)], check=True, env=env)

    def test_tied_tensors_stay_tied(self):
        shared = torch.randn(3, 3)
        torch.save({"embedding": shared, "head": shared, "other": torch.randn(2)}, self.path)
        copy = self.path.with_name("copy.pt")
        self.assertEqual(lockstep("convert", self.path, copy)[0], 0)
        found = torch.load(copy, weights_only=True)
        self.expect_same(found, torch.load(self.path))
        self.assertEqual(found["embedding"].data_ptr(), found["head"].data_ptr())

    def test_a_file_without_checksums_is_read(self):
        torch.serialization.set_crc32_options(False)
        self.addCleanup(torch.serialization.set_crc32_options, True)
        torch.save({"w": torch.ones(3)}, self.path)
        self.expect_same(self.converted(), {"w": torch.ones(3)})

    def test_other_files_of_pytorch_are_named(self):
        torch.save({"w": torch.ones(3)}, self.path, _use_new_zipfile_serialization=False)
        self.assertIn("1.6", self.refusal())
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), self.path)
        self.assertIn("TorchScript", self.refusal())
        torch.save(torch.nn.Linear(2, 2), self.path)
        self.assertIn("torch.nn.modules.linear.Linear", self.refusal())

    def test_a_cut_file_says_up_to_where_it_is_whole(self):
        torch.save({str(i): torch.randn(1000) for i in range(4)}, self.path)
        end = zipfile.ZipFile(self.path).getinfo("in/data/3").header_offset
        self.path.write_bytes(self.path.read_bytes()[: end + 100])
        message = self.refusal()
        self.assertIn("LS-5012", message)
        self.assertIn("in/data/2", message)

    def test_a_pickle_that_runs_something_runs_nothing(self):
        evil = self.path.with_name("evil")
        for call, args in ((os.system, (f"touch {evil}",)), (eval, (f"open({str(evil)!r}, 'w')",)),
                           (subprocess.Popen, (["touch", str(evil)],)), (open, (str(evil), "w")),
                           (getattr, ("os", "system")), (pickle.loads, (b"N.",))):
            for protocol in (2, 4):
                torch.save({"w": torch.ones(2), "e": Evil(call, *args)}, self.path, pickle_protocol=protocol)
                message = self.refusal()
                self.assertIn("LS-5013", message)
                self.assertIn("nothing was executed", message)
                self.assertNotIn("weights_only", message)
                self.assertFalse(evil.exists())


if __name__ == "__main__":
    unittest.main()
