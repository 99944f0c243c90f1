"""Completion in the real bash, zsh and fish: a line is typed on a terminal, then Tab and one more letter."""

import os
import pathlib
import pty
import re
import select
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.path.join(os.environ["LOCKSTEP_BIN"], "lockstep")
# What is typed, and the words that Tab and an X make of it: X apart where the last word was complete.
LINES = {
    "lockstep tr": "train X",
    "lockstep be": "bench X",
    "lockstep bench sc": "bench scaling X",
    "lockstep train examples/ml": "train examples/mlp/X",
    "lockstep train examples/mlp/": "train examples/mlp/run.toml X",
    "lockstep train --run-dir=examp": "train --run-dir=examples/X",
    "lockstep train --resume no": "train --resume none X",
    "lockstep train --as=ra": "train --as=rank X",
    "lockstep plan --set opt": "plan --set optimizer.X",
    "lockstep plan --set optimizer.na": "plan --set optimizer.name=X",
    "lockstep plan --set optimizer.name=ad": "plan --set optimizer.name=adamw X",
    "lockstep plan --set data.train=examples/mlp/RE": "plan --set data.train=examples/mlp/README.md X",
    "lockstep help LS-1019": "help LS-1019 X",
    "FOO=1 lockstep pl": "plan X",
}
# Stands for lockstep: answers the shell as it does, and prints the words of any other call.
STAND_IN = f"""#!/bin/sh
[ "$1" = --next-words ] && exec {PROGRAM} "$@"
[ "$1" = completion ] && exec {PROGRAM} "$@"
printf 'words<%s>\\n' "$*"
"""


class Terminal:
    """A shell on a pseudo terminal, in the root of the repository."""

    def __init__(self, argv, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(ROOT)
            os.execvpe(argv[0], argv, env)

    def ask(self, line, answer, seconds=20):
        """Sends a line and gives back what `answer` found in what comes."""
        os.write(self.fd, line.encode())
        text, end = "", time.monotonic() + seconds
        while (found := re.search(answer, text)) is None:
            if time.monotonic() > end:
                raise AssertionError(f"no {answer!r} in {text!r}")
            if select.select([self.fd], [], [], 0.1)[0]:
                text += os.read(self.fd, 65536).decode(errors="replace")
        return found

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class RealShells(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        stand_in = self.home / "bin/lockstep"
        stand_in.parent.mkdir()
        stand_in.write_text(STAND_IN)
        stand_in.chmod(0o755)
        self.env = dict(os.environ, PATH=f"{stand_in.parent}:{os.environ['PATH']}", HOME=str(self.home),
                        TERM="dumb", INPUTRC="/dev/null")

    def write_script(self, shell, name):
        path = self.home / "scripts" / name
        path.parent.mkdir(exist_ok=True)
        with path.open("w") as out:
            subprocess.run([PROGRAM, "completion", shell], check=True, stdout=out)
        return path

    def check_lines(self, argv, setup, lines=None):
        terminal = Terminal(argv, self.env)
        self.addCleanup(terminal.close)
        for line in [*setup, "true"]:
            terminal.ask(f"{line}; echo re''ady\n", "ready")
        for typed, words in (lines or LINES).items():
            with self.subTest(shell=argv[0], typed=typed):
                self.assertEqual(terminal.ask(f"{typed}\tX\n", r"words<([^>]*)>").group(1), words)

    def test_bash(self):
        script = self.write_script("bash", "lockstep")
        self.check_lines(["bash", "--norc", "--noprofile", "-i"], [f"source {script}"])

    def test_bash_that_cuts_words_nowhere(self):
        script = self.write_script("bash", "lockstep")
        setup = ["COMP_WORDBREAKS=' '", f"source {script}"]
        lines = {typed: words for typed, words in LINES.items() if "--run-dir=" not in typed}  # bash sees no folder there
        self.check_lines(["bash", "--norc", "--noprofile", "-i"], setup, lines)

    def test_zsh_that_finds_the_script_in_its_path(self):
        script = self.write_script("zsh", "_lockstep")
        self.check_lines(["zsh", "-f", "-i"], [f"fpath=({script.parent} $fpath)", "autoload -Uz compinit",
                                               "compinit -u -D"])

    def test_zsh_that_reads_the_script(self):
        script = self.write_script("zsh", "script")
        self.check_lines(["zsh", "-f", "-i"], ["autoload -Uz compinit", "compinit -u -D", f"source {script}"])

    def test_fish(self):
        script = self.write_script("fish", "lockstep.fish")
        for typed, words in LINES.items():
            if "LS-1019" in typed:
                continue  # fish adds nothing to a word that is complete
            with self.subTest(typed=typed):
                found = subprocess.run(["fish", "--no-config", "-c", f"source {script}; complete -C '{typed}'"],
                                       check=True, capture_output=True, text=True, env=self.env, cwd=ROOT).stdout
                offered = [line.split("\t")[0] for line in found.splitlines()]
                self.assertEqual(offered, [words.removesuffix("X").rstrip().split(" ")[-1]])


if __name__ == "__main__":
    unittest.main()
