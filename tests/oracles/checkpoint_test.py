"""The safetensors package against our files, and ours against the files it writes or refuses."""

import json
import pathlib
import struct
import subprocess
import tempfile
import unittest

import numpy
import safetensors
import safetensors.torch
import torch

DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
}
OURS = {
    "blocks.0.weight": ("F32", [3, 5]), "blocks.0.bias": ("BF16", [3]), "half": ("F16", [2, 2]),
    "double": ("F64", [2]), "count": ("I64", []), "ids": ("I32", [4]), "short": ("I16", [3]),
    "bytes": ("U8", [7]), "signed": ("I8", [3]), "empty": ("F32", [0, 4]), 'name "q" \\ é': ("F32", [1]),
}


def raw(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def ours(action, path):
    done = subprocess.run(["checkpoint_files", action, str(path)], text=True, capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def file_of(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def one(dtype="U8", shape=(4,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


# Files of four data bytes, each with one fault. The package takes those marked True: there we are
# stricter (docs/formats/checkpoint.md).
HOSTILE = {
    "hole": (False, {"a": one(shape=(1,), offsets=(0, 1)), "b": one(shape=(2,), offsets=(2, 4))}),
    "overlap": (False, {"a": one(), "b": one(shape=(2,), offsets=(2, 4))}),
    "trailing": (False, {"a": one(shape=(3,), offsets=(0, 3))}),
    "past the end": (False, {"a": one(shape=(5,), offsets=(0, 5))}),
    "backwards": (False, {"a": one(shape=(4,), offsets=(4, 0))}),
    "size of another shape": (False, {"a": one(shape=(5,))}),
    "unknown dtype": (False, {"a": one(dtype="F99")}),
    "negative dim": (False, {"a": one(shape=(-4,))}),
    "overflow": (False, {"a": one(shape=(2**63, 2**63))}),
    "not an object": (False, [1, 2]),
    "metadata of numbers": (False, {"__metadata__": {"n": 1}, "a": one()}),
    "duplicate": (True, b'{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},'
                        b'"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}'),
}


class CheckpointTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "model.safetensors"

    def test_the_package_reads_what_we_write(self):
        self.assertEqual(ours("write", self.path)[0], 0)
        tensors = safetensors.torch.load_file(self.path)
        self.assertEqual(set(tensors), set(OURS))
        for name, (dtype, shape) in OURS.items():
            self.assertEqual(tensors[name].dtype, DTYPES[dtype], name)
            self.assertEqual(list(tensors[name].shape), shape, name)
            want = bytes(i % 61 for i in range(len(raw(tensors[name]))))
            self.assertEqual(raw(tensors[name]), want, name)
        with safetensors.safe_open(self.path, "pt") as opened:
            self.assertEqual(opened.metadata(), {"format": "pt"})

    def test_the_package_writes_the_same_file(self):
        ours("write", self.path)
        tensors = safetensors.torch.load_file(self.path)
        copy = self.path.with_name("copy.safetensors")
        safetensors.torch.save_file(tensors, copy, {"format": "pt"})
        self.assertEqual(copy.read_bytes(), self.path.read_bytes())

    def test_we_read_what_the_package_writes(self):
        torch.manual_seed(1)
        tensors = {
            "w": torch.randn(17, 3), "b": torch.randn(5).bfloat16(), "n": torch.tensor(7), "flag": torch.tensor([True]),
            "half": torch.randn(2, 2).half(), "empty": torch.zeros(0, 3),
        }
        safetensors.torch.save_file(tensors, self.path)
        code, text, _ = ours("read", self.path)
        self.assertEqual(code, 0)
        seen = {line.split(" ")[0]: line for line in text.splitlines()}
        self.assertEqual(set(seen), set(tensors))
        for name, tensor in tensors.items():
            dtype = next(key for key, value in DTYPES.items() if value == tensor.dtype)
            self.assertIn(f"{name} {dtype} {list(tensor.shape)} ", seen[name])

    def test_numpy_files_are_read_too(self):
        import safetensors.numpy

        safetensors.numpy.save_file({"x": numpy.arange(6, dtype=numpy.float64).reshape(2, 3)}, self.path)
        self.assertIn("x F64 [2, 3]", ours("read", self.path)[1])

    def test_what_the_package_refuses_we_refuse(self):
        for name, (package_takes_it, header) in HOSTILE.items():
            with self.subTest(name):
                self.path.write_bytes(file_of(header, b"data"))
                code, _, message = ours("read", self.path)
                self.assertEqual(code, 4, message)
                self.assertIn("LS-5004", message)
                if package_takes_it:
                    safetensors.torch.load_file(self.path)
                else:
                    with self.assertRaises(Exception):
                        safetensors.torch.load_file(self.path)

    def test_spaces_around_the_header_are_taken_by_both(self):
        self.path.write_bytes(file_of(b"  " + json.dumps({"a": one()}).encode() + b"   ", b"data"))
        self.assertEqual(ours("read", self.path)[0], 0)
        self.assertEqual(bytes(safetensors.torch.load_file(self.path)["a"].tolist()), b"data")


if __name__ == "__main__":
    unittest.main()
