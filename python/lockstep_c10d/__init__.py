"""torch.distributed over shared memory: init_process_group("lockstep") for the ranks of one host.

`import torch` registers the backend where this package is installed (entry point `torch.backends`);
importing this package does the same. The extension itself is loaded with the first group.
"""

import atexit
import os

__all__ = ["register"]


def _extension():
    """The compiled part, which fits one version of torch only."""
    import torch

    from . import _built

    if torch.__version__.split("+")[0] != _built.TORCH_VERSION:
        raise ImportError(
            f"lockstep_c10d was built against torch {_built.TORCH_VERSION}, this is {torch.__version__}; "
            "run `make python-backend` with this Python's torch")
    from . import _C

    return _C


def _create(options, _backend_options=None):
    """Called by init_process_group and new_group. Collective."""
    extension = _extension()
    atexit.unregister(extension.leave_all)
    atexit.register(extension.leave_all)
    # DistributedDataParallel asks a backend for its buckets' memory only then: ours lies in shared
    # memory, where all_reduce copies nothing.
    os.environ.setdefault("DDP_DISABLE_COMM_MEM", "0")
    # The store's prefix is the group's own; the name is for people.
    return extension.create(options.store, options.group_rank, options.group_size, options.timeout,
                            options.group_id or "world")


def register():
    """Makes "lockstep" known to torch.distributed; called any number of times."""
    import torch.distributed as dist

    if dist.is_available() and "lockstep" not in dist.Backend.backend_list:
        dist.Backend.register_backend("lockstep", _create, extended_api=True, devices=["cpu"])


register()  # last: importing torch comes back here for register() when this package is imported first
