"""`lockstep ckpt` as tests call it, and what they compare by."""

import pathlib
import subprocess
import tempfile
import unittest

import safetensors.torch
import torch

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
          torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]


def lockstep(*words):
    done = subprocess.run(["lockstep", "ckpt", *map(str, words)], text=True, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def raw(tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).tolist()) if tensor.numel() else b""


def some(dtype, *shape):
    if dtype == torch.bool:
        return torch.rand(*shape) > 0.5
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(*shape, dtype=torch.complex64 if dtype.is_complex else torch.float32).to(dtype)
    return torch.randint(0, 100, shape).to(dtype)


class CkptTest(unittest.TestCase):
    """A checkpoint at self.path, in the folder self.base."""

    NAME = "in"

    def setUp(self):
        torch.manual_seed(1)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.base = pathlib.Path(folder.name)
        self.path = self.base / self.NAME
        self.out = self.base / "out.safetensors"

    def converted(self):
        """What is in self.path, by way of a safetensors file."""
        code, _, message = lockstep("convert", self.path, self.out, "--force")
        self.assertEqual(code, 0, message)
        return safetensors.torch.load_file(self.out)

    def expect_same(self, found, wanted):
        self.assertEqual(set(found), set(wanted))
        for name, tensor in wanted.items():
            self.assertEqual(found[name].dtype, tensor.dtype, name)
            self.assertEqual(found[name].shape, tensor.shape, name)
            self.assertEqual(raw(found[name]), raw(tensor), name)

    def refusal(self):
        code, _, message = lockstep("inspect", self.path)
        self.assertEqual(code, 4, message)
        return message
