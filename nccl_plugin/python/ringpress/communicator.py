"""Communicators: ranks that call collectives together, on arrays that stay where they are."""
import ctypes
import os
import pathlib
import time
from typing import Any, Dict, Optional, Union

from . import errors, library
from .arrays import Buffer, buffer_of, operation_of

Path = Union[str, "os.PathLike[str]"]


class _Statistics(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("calls", ctypes.c_uint64), ("compressed_calls", ctypes.c_uint64),
                ("raw_bytes", ctypes.c_uint64), ("wire_bytes", ctypes.c_uint64),
                ("residual_bytes", ctypes.c_uint64), ("codec", ctypes.c_char * 128),
                ("algorithm", ctypes.c_char * 16), ("reason", ctypes.c_char * 160),
                ("observed_calls", ctypes.c_uint64), ("observed_raw_bytes", ctypes.c_uint64),
                ("unsent_tensors", ctypes.c_uint64), ("unsent_elements", ctypes.c_uint64),
                ("unsent_norm", ctypes.c_double), ("calibration_bytes", ctypes.c_uint64)]


class _StateLoad(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("outcome", ctypes.c_int), ("rank", ctypes.c_int),
                ("reason", ctypes.c_char * 256)]


def unique_id() -> bytes:
    """128 bytes that name a communicator before it exists. One rank makes it and gives it to all others."""
    made = library.UniqueId()
    library.call("ncclGetUniqueId", ctypes.byref(made))
    return bytes(made)


def exchange_by_folder(folder: Path, rank: int, timeout: float = 60.0) -> bytes:
    """Rank 0's unique id to all ranks, through an empty folder that all ranks see.

    `timeout` is in seconds. Raises RemoteError when rank 0's file is not there by then.
    """
    file = pathlib.Path(folder) / "ringpress_id"
    if rank == 0:
        written = file.with_suffix(".new")
        written.write_bytes(unique_id())
        written.rename(file)
    until = time.monotonic() + timeout
    while not file.exists():
        if time.monotonic() > until:
            raise errors.RemoteError(f"{file} is not there after {timeout:g} s: has rank 0 started?")
        time.sleep(0.01)
    return file.read_bytes()


class Communicator:
    """Ranks that call collectives together and in the same order.

    A call returns when its result is there. Other Python threads run meanwhile; one thread at a time may use a
    communicator. Buffers are contiguous numpy arrays or CPU tensors of torch, of one type: int8, uint8, int32, uint32,
    int64, uint64, float16, float32, float64 or bfloat16. Failures raise RingpressError or one of its subclasses;
    after any but InvalidArgumentError the communicator is to be aborted.
    """

    def __init__(self, rank: int, size: int, unique: bytes):
        if len(unique) != library.ID_BYTES:
            raise errors.InvalidArgumentError(f"the unique id has {len(unique)} bytes, but must have "
                                              f"{library.ID_BYTES}, as unique_id() makes it")
        self.rank, self.size = rank, size
        self.handle = ctypes.c_void_p()
        value = library.UniqueId.from_buffer_copy(unique)
        library.call("ncclCommInitRank", ctypes.byref(self.handle), size, value, rank)

    def all_reduce(self, send: Any, receive: Any = None, op: str = "sum") -> None:
        """The sum (or "avg", "min", "max", "prod") of all ranks' `send`, to `receive` of the same size; without
        `receive` in place. Large sums of gradients may be compressed, which loses something."""
        source, target = self._pair(send, receive, 1, 1)
        library.call("ncclAllReduce", source.address, target.address, ctypes.c_size_t(source.count), source.type,
                     operation_of(op), self.handle, None)

    def reduce(self, send: Any, receive: Any = None, op: str = "sum", root: int = 0) -> None:
        """As all_reduce(), to `receive` of rank `root` alone."""
        source, target = self._pair(send, receive, 1, 1)
        library.call("ncclReduce", source.address, target.address, ctypes.c_size_t(source.count), source.type,
                     operation_of(op), root, self.handle, None)

    def broadcast(self, buffer: Any, root: int = 0) -> None:
        """Rank `root`'s buffer to those of all ranks, which have the same size and type."""
        target = buffer_of(buffer, "buffer", written=True)
        library.call("ncclBroadcast", target.address, target.address, ctypes.c_size_t(target.count), target.type,
                     root, self.handle, None)

    def all_gather(self, send: Any, receive: Any) -> None:
        """All ranks' `send`, in order of ranks, to `receive`, which has `size` times as many elements."""
        source, target = self._pair(send, receive, 1, self.size)
        library.call("ncclAllGather", source.address, target.address, ctypes.c_size_t(source.count), source.type,
                     self.handle, None)

    def reduce_scatter(self, send: Any, receive: Any, op: str = "sum") -> None:
        """Part `rank` of the sum of all ranks' `send`, to `receive`, which has 1/`size` of its elements."""
        source, target = self._pair(send, receive, self.size, 1)
        library.call("ncclReduceScatter", source.address, target.address, ctypes.c_size_t(target.count),
                     source.type, operation_of(op), self.handle, None)

    def all_to_all(self, send: Any, receive: Any) -> None:
        """Part i of `send` to rank i, whose part for this rank comes to part i of `receive`, of the same size."""
        source, target = self._pair(send, receive, 1, 1)
        if source.count % self.size:
            raise errors.InvalidArgumentError(f"send has {source.count} elements, which is no multiple of the "
                                              f"communicator's {self.size} ranks")
        library.call("ncclAlltoAll", source.address, target.address,
                     ctypes.c_size_t(source.count // self.size), source.type, self.handle, None)

    def send(self, buffer: Any, peer: int) -> None:
        """To rank `peer`, which calls receive() with as many elements of the same type."""
        source = buffer_of(buffer, "buffer")
        library.call("ncclSend", source.address, ctypes.c_size_t(source.count), source.type, peer, self.handle, None)

    def receive(self, buffer: Any, peer: int) -> None:
        """What rank `peer` sends with send()."""
        target = buffer_of(buffer, "buffer", written=True)
        library.call("ncclRecv", target.address, ctypes.c_size_t(target.count), target.type, peer, self.handle, None)

    def statistics(self) -> Dict[str, Any]:
        """What the communicator did since it was made: calls, compressed_calls, raw_bytes, wire_bytes (sent by this
        rank), residual_bytes (of memory), codec, algorithm and reason of the last call, and what else
        ringpressStatistics_t has."""
        found = _Statistics(size=ctypes.sizeof(_Statistics))
        library.call("ringpressGetStatistics", self.handle, ctypes.byref(found))
        return library.structure_as_dict(found)

    def save_state(self, path: Path) -> None:
        """What this rank keeps from call to call, to a file of its own. All ranks save between the same calls."""
        library.call("ringpressStateSave", self.handle, os.fsencode(path))

    def load_state(self, path: Path) -> Optional[str]:
        """Goes on as the communicator that was saved. All ranks together, best before the first call. Returns None,
        or why none of the ranks does."""
        load = _StateLoad(size=ctypes.sizeof(_StateLoad))
        library.call("ringpressStateLoad", self.handle, os.fsencode(path), ctypes.byref(load))
        return None if load.outcome == 0 else f"rank {load.rank}: {load.reason.decode(errors='replace')}"

    def flush_lazy(self) -> None:
        """With RINGPRESS_LAZY: the next all-reduce of each tensor is sent, with what has been put off of it."""
        library.call("ringpressLazyFlush", self.handle)

    def destroy(self) -> None:
        """Ends the communicator. A second call does nothing."""
        self._end("ncclCommDestroy")

    def abort(self) -> None:
        """Ends it at once: calls of other threads and of other ranks fail."""
        self._end("ncclCommAbort")

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.destroy()
        else:
            self.abort()

    def _end(self, function: str) -> None:
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle:
            library.call(function, handle)

    @staticmethod
    def _pair(send: Any, receive: Any, send_parts: int, receive_parts: int) -> "tuple[Buffer, Buffer]":
        """Two buffers of one type, whose counts are as send_parts to receive_parts."""
        source = buffer_of(send, "send", written=receive is None)
        if receive is None:
            return source, source
        target = buffer_of(receive, "receive", written=True)
        if source.type != target.type:
            raise errors.InvalidArgumentError(f"send has the type {send.dtype}, receive {receive.dtype}: they must be equal")
        if source.count * receive_parts != target.count * send_parts:
            raise errors.InvalidArgumentError(
                f"send has {source.count} elements and receive {target.count}, but receive must have "
                f"{receive_parts}/{send_parts} of those of send")
        return source, target


def communicator(rank: Optional[int] = None, size: Optional[int] = None, *, unique: Optional[bytes] = None,
                 folder: Optional[Path] = None) -> Communicator:
    """A communicator of `size` ranks, all of which call this.

    rank, size: from RANK and WORLD_SIZE if they are not given, as torchrun sets them. The ranks find each other by
    `unique`, which is unique_id() of one rank, or by `folder`, an empty folder that all ranks see. One rank needs
    neither. Raises InvalidArgumentError for a rank or size that cannot be, RemoteError if a rank does not come.
    """
    rank = int(os.environ.get("RANK", "0")) if rank is None else rank
    size = int(os.environ.get("WORLD_SIZE", "1")) if size is None else size
    if unique is None and folder is not None:
        unique = exchange_by_folder(folder, rank)
    if unique is None and size == 1:
        unique = unique_id()
    if unique is None:
        raise errors.InvalidArgumentError(f"a communicator of {size} ranks needs unique= (unique_id() of one rank, given "
                                          "to all) or folder= (an empty folder that all ranks see)")
    return Communicator(rank, size, unique)
