"""The C functions of libringpress.so that training on host memory needs, by ctypes."""
import contextlib
import ctypes
import os
import pathlib
import time

FLOAT32, SUM, AVG = 7, 0, 4


@contextlib.contextmanager
def environment(**variables):
    """Set for communicators made meanwhile, and for no others."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class GossipConfig(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("theta", ctypes.c_double), ("t_min", ctypes.c_uint64),
                ("t_max", ctypes.c_uint64), ("period", ctypes.c_uint64), ("seed", ctypes.c_uint64),
                ("codec", ctypes.c_char_p)]


class GossipStatistics(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("steps", ctypes.c_uint64), ("asked", ctypes.c_uint64),
                ("exchanges", ctypes.c_uint64), ("sent_bytes", ctypes.c_uint64)]


class Statistics(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("calls", ctypes.c_uint64),
                ("compressed_calls", ctypes.c_uint64), ("raw_bytes", ctypes.c_uint64),
                ("wire_bytes", ctypes.c_uint64), ("residual_bytes", ctypes.c_uint64),
                ("codec", ctypes.c_char * 128), ("algorithm", ctypes.c_char * 16),
                ("reason", ctypes.c_char * 160), ("observed_calls", ctypes.c_uint64),
                ("observed_raw_bytes", ctypes.c_uint64)]


class StateLoad(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("outcome", ctypes.c_int), ("rank", ctypes.c_int),
                ("reason", ctypes.c_char * 256)]


class RingpressError(RuntimeError):
    pass


class Library:
    def __init__(self, path):
        self.functions = ctypes.CDLL(str(path))
        self.functions.ncclGetLastError.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        if getattr(self.functions, name)(*arguments) != 0:
            raise RingpressError(f"{name}: {self.functions.ncclGetLastError(None).decode()}")


def exchange_id(folder, rank, make):
    """Rank 0's id to all, through a file that is there when it is whole."""
    path = pathlib.Path(folder) / "ringpress_id"
    if rank == 0:
        written = path.with_suffix(".new")
        written.write_bytes(make())
        written.rename(path)
    until = time.monotonic() + 60
    while not path.exists():
        if time.monotonic() > until:
            raise RingpressError(f"no {path} after a minute")
        time.sleep(0.01)
    return path.read_bytes()


class Communicator:
    """The ranks of RANK and WORLD_SIZE, which all see `folder`. Buffers are contiguous float32 arrays
    of numpy, which stay where they are."""

    def __init__(self, library, folder):
        self.library = Library(library)
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.handle = ctypes.c_void_p()
        unique = UniqueId()

        def make():
            self.library.call("ncclGetUniqueId", ctypes.byref(unique))
            return bytes(unique)
        ctypes.memmove(ctypes.byref(unique), exchange_id(folder, self.rank, make), 128)
        self.library.call("ncclCommInitRank", ctypes.byref(self.handle), self.size, unique, self.rank)

    def all_reduce(self, values, op=AVG):
        self.all_reduce_at(values.ctypes.data, values.size, op)

    def all_reduce_at(self, address, count, op=AVG):
        """Of `count` float32 values in memory. Returns when they are reduced; meanwhile other threads run."""
        pointer = ctypes.c_void_p(address)
        self.library.call("ncclAllReduce", pointer, pointer, ctypes.c_size_t(count), FLOAT32, op, self.handle,
                          None)

    def flush_lazy(self):
        """The next all-reduce of each tensor is sent, with what has been put off of it."""
        self.library.call("ringpressLazyFlush", self.handle)

    def save_state(self, path):
        """What this rank keeps from call to call, to a file of its own. All ranks save between the same calls."""
        self.library.call("ringpressStateSave", self.handle, os.fsencode(path))

    def load_state(self, path):
        """Goes on as the communicator that was saved. All ranks together: None, or why none of them does."""
        load = StateLoad(size=ctypes.sizeof(StateLoad))
        self.library.call("ringpressStateLoad", self.handle, os.fsencode(path), ctypes.byref(load))
        return None if load.outcome == 0 else f"rank {load.rank}: {load.reason.decode(errors='replace')}"

    def statistics(self):
        statistics = Statistics(size=ctypes.sizeof(Statistics))
        self.library.call("ringpressGetStatistics", self.handle, ctypes.byref(statistics))
        return statistics

    def sent_bytes(self):
        """By this rank since the start, headers included."""
        return self.statistics().wire_bytes

    def destroy(self):
        self.library.call("ncclCommDestroy", self.handle)


class Gossip:
    """ringpressGossip... on one model."""

    def __init__(self, communicator, model, **options):
        self.library, self.handle = communicator.library, ctypes.c_void_p()
        config = GossipConfig(size=ctypes.sizeof(GossipConfig), t_min=1)
        for name, value in options.items():
            setattr(config, name, value.encode() if isinstance(value, str) else value)
        self.library.call("ringpressGossipInit", ctypes.byref(self.handle),
                          ctypes.c_void_p(model.ctypes.data), ctypes.c_size_t(model.size), FLOAT32,
                          ctypes.byref(config), communicator.handle, None)

    def step(self, model):
        self.library.call("ringpressGossipStep", self.handle, ctypes.c_void_p(model.ctypes.data), None,
                          None)

    def flush(self, model):
        self.library.call("ringpressGossipFlush", self.handle, ctypes.c_void_p(model.ctypes.data), None)

    def statistics(self):
        statistics = GossipStatistics(size=ctypes.sizeof(GossipStatistics))
        self.library.call("ringpressGossipGetStatistics", self.handle, ctypes.byref(statistics))
        return statistics

    def destroy(self):
        self.library.call("ringpressGossipDestroy", self.handle)
