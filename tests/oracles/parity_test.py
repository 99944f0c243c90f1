"""Ten steps of the full GPT (6 x 384) on two ranks beside PyTorch DDP: too large for a committed fixture.

PyTorch runs here and now and writes the fixture that parity_test (tests/parity) then compares with.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class FullGpt(unittest.TestCase):
    def test_losses_and_parameters_equal_ddp(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, ROOT / "tests/parity/make_fixtures.py", "--full", folder], check=True)
            done = subprocess.run(["parity_test", "--gtest_filter=*PyTorchParity*"], cwd=ROOT, text=True,
                                  capture_output=True, env=dict(os.environ, LOCKSTEP_PARITY_FIXTURES=folder))
        print("\n".join(line for line in done.stdout.splitlines() if line.startswith("PARITY ")))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("[  PASSED  ] 1 test.", done.stdout)


if __name__ == "__main__":
    unittest.main()
