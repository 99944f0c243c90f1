#!/usr/bin/env python3
"""Packs the program lockstep, which needs neither LibTorch nor Python, for Debian and for pip.

    make_package.py BUILD_FOLDER OUT_FOLDER

BUILD_FOLDER/bin/portable/lockstep must be there (`make package` builds it). Into OUT_FOLDER go
lockstep_VERSION_ARCH.deb and lockstep_launch-VERSION-py3-none-manylinux_X_Y_ARCH.whl. The same program gives the
same bytes.
"""

import base64
import gzip
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SUMMARY = "start, watch and restart distributed programs, as torchrun does"
DESCRIPTION = """`lockstep launch` starts any program on one or several hosts with torchrun's flags and environment, watches it,
and starts it again when it fails. `lockstep train`, `plan`, `doctor` and `submit` belong to the training library of
the same name, which also needs lockstep-worker and LibTorch; everything else works alone."""
COPYRIGHT = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: lockstep

Comment: The program contains parts of these, whose licences Debian's packages carry:
 OpenSSL (libssl-dev), zlib (zlib1g-dev), libstdc++ (libstdc++-12-dev), nlohmann-json (nlohmann-json3-dev),
 toml++ (libtomlplusplus-dev), CLI11 (libcli11-dev), xxHash (libxxhash-dev).
"""


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def glibc_version(program):
    """The newest version of the C library that the program asks for: (2, 34)."""
    found = re.findall(rb"GLIBC_(\d+)\.(\d+)", program.read_bytes())
    return max((int(major), int(minor)) for major, minor in found)


def man_page(version, markdown):
    """docs/cli.md as roff: headings, paragraphs, tables as lists, examples as they are."""
    def text(line):
        line = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", line).replace("\\|", "|").replace("\\", "\\e")
        line = re.sub(r"`([^`]*)`", r"\\fB\1\\fR", line.replace("-", "\\-"))
        return "\\&" + line if line[:1] in ".'" else line

    lines = [f'.TH LOCKSTEP 1 "" "lockstep {version}"', ".SH NAME", f"lockstep \\- {SUMMARY}",
             ".SH SYNOPSIS", ".B lockstep", "COMMAND [flags]", ".SH DESCRIPTION"]
    in_code = False
    for line in markdown.splitlines()[3:]:
        if line.startswith("```"):
            in_code = not in_code
            lines.append(".nf" if in_code else ".fi")
        elif in_code:
            lines.append(text(line))
        elif line.startswith("#"):
            lines.append(".SH " + text(line.lstrip("# ")).upper())
        elif line.startswith("| ") and not line.startswith("| flag") and not line.startswith("| code"):
            cells = re.split(r"(?<!\\)\|", line.strip("| "), maxsplit=1)
            lines += [".TP", text(cells[0].strip()), text(cells[-1].strip())]
        elif not line.startswith("|"):
            lines.append(text(line) if line else ".PP")
    return "\n".join(lines) + "\n"


def shared_files(program):
    """Path under share/ -> bytes: what shells and editors read."""
    def completion(shell):
        return run(program, "completion", shell).encode()

    return {
        "bash-completion/completions/lockstep": completion("bash"),
        "zsh/vendor-completions/_lockstep": completion("zsh"),
        "fish/vendor_completions.d/lockstep.fish": completion("fish"),
        "lockstep/run.schema.json": run(program, "help", "--schema").encode(),
    }


def compressed(data):
    return gzip.compress(data, mtime=0)


def make_deb(program, version, out):
    arch = run("dpkg", "--print-architecture").strip()
    major, minor = glibc_version(program)
    files = {f"usr/share/{path}": data for path, data in shared_files(program).items()}
    page = man_page(version, run(program, "help", "--markdown", "cli"))
    changes = f"lockstep ({version}) stable; urgency=low\n\n  * Version {version}.\n\n"
    changes += " -- the lockstep authors <lockstep@localhost>  Thu, 01 Jan 1970 00:00:00 +0000\n"
    files |= {
        "usr/bin/lockstep": program.read_bytes(),
        "usr/share/man/man1/lockstep.1.gz": compressed(page.encode()),
        "usr/share/doc/lockstep/copyright": COPYRIGHT.encode(),
        "usr/share/doc/lockstep/changelog.gz": compressed(changes.encode()),
        "usr/share/doc/lockstep/from-torchrun.md": (ROOT / "docs/guides/from-torchrun.md").read_bytes(),
        "usr/share/doc/lockstep/from-horovodrun.md": (ROOT / "docs/guides/from-horovodrun.md").read_bytes(),
    }
    size_kib = sum(len(data) // 1024 + 1 for data in files.values())
    control = (f"Package: lockstep\nVersion: {version}\nArchitecture: {arch}\nSection: utils\nPriority: optional\n"
               "Maintainer: the lockstep authors <lockstep@localhost>\n"
               f"Installed-Size: {size_kib}\nDepends: libc6 (>= {major}.{minor})\n"
               "Suggests: openssh-client, python3\n"
               f"Description: {SUMMARY}\n" + "".join(f" {line}\n" for line in DESCRIPTION.splitlines()))
    sums = "".join(f"{hashlib.md5(data).hexdigest()}  {path}\n" for path, data in sorted(files.items()))
    target = out / f"lockstep_{version}_{arch}.deb"
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch) / "tree"
        for path, data in (files | {"DEBIAN/control": control.encode(), "DEBIAN/md5sums": sums.encode()}).items():
            file = tree / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(0o755 if path.startswith("usr/bin/") else 0o644)
        for folder in [tree, *(path for path in tree.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)
        subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, target], check=True,
                       stdout=subprocess.DEVNULL, env={"SOURCE_DATE_EPOCH": "0", "PATH": "/usr/bin:/bin"})
    return target


def make_wheel(program, version, out):
    major, minor = glibc_version(program)
    tag = f"py3-none-manylinux_{major}_{minor}_{platform.machine()}"
    stem = f"lockstep_launch-{version}"
    metadata = (f"Metadata-Version: 2.1\nName: lockstep-launch\nVersion: {version}\nSummary: {SUMMARY}\n"
                "Requires-Python: >=3\nClassifier: Environment :: Console\n"
                "Classifier: Operating System :: POSIX :: Linux\nDescription-Content-Type: text/markdown\n\n"
                f"{DESCRIPTION}\n\nAfter `pip install lockstep-launch`, `lockstep launch` takes the place of `torchrun`.\n")
    files = {f"{stem}.data/scripts/lockstep": program.read_bytes()}
    files |= {f"{stem}.data/data/share/{path.replace('vendor-completions', 'site-functions')}": data
              for path, data in shared_files(program).items()}
    files |= {
        f"{stem}.dist-info/METADATA": metadata.encode(),
        f"{stem}.dist-info/WHEEL": ("Wheel-Version: 1.0\nGenerator: lockstep\nRoot-Is-Purelib: false\n"
                                    f"Tag: {tag}\n").encode(),
    }
    record = f"{stem}.dist-info/RECORD"
    rows = [f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}"
            for path, data in files.items()]
    files[record] = "".join(row + "\n" for row in [*rows, f"{record},,"]).encode()
    target = out / f"{stem}-{tag}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path)  # of 1980: the same bytes every time
            entry.external_attr = (0o100755 if "/scripts/" in path else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, data)
    return target


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]) / "bin/portable/lockstep"
    if not program.exists():
        sys.exit(f"make_package: {program} is missing: make package builds it (libssl-dev and zlib1g-dev bring what "
                 "it is linked with)")
    out = pathlib.Path(sys.argv[2])
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    version = re.search(r"^project\(lockstep VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
    for make in (make_deb, make_wheel):
        target = make(program, version, out)
        print(f"{target} {target.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
