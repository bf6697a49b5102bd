"""The process-group back end "ringpress" of torch.distributed, for tensors on the CPU, and a hook for DDP.

By default gradients lose something; RINGPRESS=lossless loses nothing, RINGPRESS=off compresses nothing.

    import ringpress.torch
    torch.distributed.init_process_group("ringpress")
"""
import ctypes
import datetime
from typing import Any, Optional

import torch
import torch.distributed as dist

from .. import errors, library
from ..communicator import Communicator, unique_id
from .extension import BuildError, build, load
from .hook import HookState, ddp_hook

__all__ = ["BuildError", "HookState", "build", "communicator_of", "ddp_hook"]

NAME = "ringpress"


def _described(size: int) -> str:
    """What ranks of one group must have alike."""
    return f"world_size {size}, ringpress {library.version()}"


def _compare(store: Any, rank: int, size: int) -> None:
    """Ranks that differ are told on both sides, before they wait for each other."""
    own = _described(size)
    store.set(f"ringpress_rank/{rank}", own)
    for other in range(1, size) if rank == 0 else (0,):
        if other == rank:
            continue
        found = store.get(f"ringpress_rank/{other}").decode()
        if found != own:
            raise errors.InvalidUsageError(f"rank {rank} has {own}, but rank {other} has {found}. All ranks of a process "
                                           "group must have the same world_size and the same version.")


def create_backend(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
    """The c10d back end of one group: called by init_process_group() and new_group().

    Raises InvalidUsageError if ranks differ, BuildError if the back end cannot be compiled, RuntimeError if the ranks
    do not find each other.
    """
    module = load()
    library.functions()
    _compare(store, rank, size)
    if rank == 0:
        made = unique_id()
        store.set("ringpress_id", made.hex())
    else:
        made = bytes.fromhex(store.get("ringpress_id").decode())
    return module.create(str(library.path()), store, made, rank, size, timeout)


def _backend_of(group: Any) -> Any:
    group = group or dist.distributed_c10d._get_default_group()
    return group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group


class _GroupCommunicator(Communicator):
    """Of a process group, which ends it."""

    def __init__(self, rank: int, size: int, handle: int):  # pylint: disable=super-init-not-called
        self.rank, self.size, self.handle = rank, size, ctypes.c_void_p(handle)

    def destroy(self) -> None:
        raise errors.InvalidUsageError("the process group ends its communicator: call "
                                       "torch.distributed.destroy_process_group()")

    abort = destroy


def communicator_of(group: Optional[Any] = None) -> Communicator:
    """The communicator behind a process group of this back end (None: the default group): for statistics(), save_state() and
    load_state(), between the group's calls."""
    backend = _backend_of(group)
    return _GroupCommunicator(backend.rank(), backend.size(), load().handle(backend))


def _register() -> None:
    if hasattr(dist.Backend, NAME.upper()):
        return
    if int(torch.__version__.split(".")[0]) >= 2:
        dist.Backend.register_backend(NAME, create_backend, devices=["cpu"])
    else:
        dist.Backend.register_backend(NAME, create_backend)


_register()
