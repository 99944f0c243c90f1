#!/usr/bin/env python3
"""Installs lockstep_c10d into the Python that runs this script (`make python-backend` builds it first).

    install_python_backend.py BUILD_FOLDER

Files are put in place one by one by renaming, so a process that runs keeps what it has loaded. `pip uninstall
lockstep-c10d` removes them.
"""

import importlib.metadata
import os
import pathlib
import sys
import sysconfig

NAME, VERSION = "lockstep_c10d", "0.1.0"
SOURCE = pathlib.Path(__file__).resolve().parents[1] / "python" / NAME


def contents(build):
    """Path under site-packages -> bytes."""
    extension = build / "python" / NAME / ("_C" + sysconfig.get_config_var("EXT_SUFFIX"))
    torch_version = importlib.metadata.version("torch").split("+")[0]
    info = f"{NAME}-{VERSION}.dist-info"
    files = {
        f"{NAME}/{extension.name}": extension.read_bytes(),
        f"{NAME}/__init__.py": (SOURCE / "__init__.py").read_bytes(),
        f"{NAME}/_built.py": f'TORCH_VERSION = "{torch_version}"\n'.encode(),
        f"{info}/METADATA": (f"Metadata-Version: 2.1\nName: {NAME.replace('_', '-')}\nVersion: {VERSION}\n"
                             "Summary: torch.distributed over the shared memory of one host\n").encode(),
        f"{info}/INSTALLER": b"lockstep\n",
        f"{info}/entry_points.txt": f"[torch.backends]\nlockstep = {NAME}:register\n".encode(),
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]).encode()
    return files


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    target = pathlib.Path(sysconfig.get_path("platlib"))
    # The entry point comes last: from then on every `import torch` looks for the rest.
    for path, data in sorted(contents(pathlib.Path(sys.argv[1])).items(), key=lambda file: "entry_points" in file[0]):
        file = target / path
        if file.exists() and file.read_bytes() == data:
            continue
        file.parent.mkdir(exist_ok=True)
        scratch = file.with_name(f".{file.name}.{os.getpid()}")
        scratch.write_bytes(data)
        scratch.rename(file)
    print(f"lockstep_c10d {VERSION} is in {target}")


if __name__ == "__main__":
    main()
