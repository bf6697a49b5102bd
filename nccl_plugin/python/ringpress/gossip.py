"""Gossip: models that take the mean with one other worker now and then, in place of all-reduces of gradients."""
import ctypes
from typing import Any, Dict, Optional

from . import library
from .arrays import buffer_of
from .communicator import Communicator


class _Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("theta", ctypes.c_double), ("t_min", ctypes.c_uint64),
                ("t_max", ctypes.c_uint64), ("period", ctypes.c_uint64), ("seed", ctypes.c_uint64),
                ("codec", ctypes.c_char_p)]


class _Step(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("change", ctypes.c_double), ("exchanged", ctypes.c_int),
                ("peer", ctypes.c_int), ("sent_bytes", ctypes.c_uint64), ("partial", ctypes.c_int)]


class _Statistics(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("steps", ctypes.c_uint64), ("asked", ctypes.c_uint64),
                ("exchanges", ctypes.c_uint64), ("sent_bytes", ctypes.c_uint64)]


class Gossip:
    """Gossip on one model: a contiguous array of float32, float16 or bfloat16. All ranks make it together, and call
    step() and flush() equally often.

    theta: above so much relative change since its last exchange a worker asks for one; 0: at every step.
    t_min, t_max: but not before so many steps, and always after so many (0: no limit). period: not 0: every so
    many steps instead. seed: of who meets whom. codec: in which models are sent; None: as they are. All are equal on all
    ranks, else InvalidUsageError names the rank and both values.
    """

    def __init__(self, communicator: Communicator, model: Any, *, theta: float = 0.0, t_min: int = 1, t_max: int = 0,
                 period: int = 0, seed: int = 0, codec: Optional[str] = None):
        self.handle = ctypes.c_void_p()
        self._communicator = communicator  # Lives at least as long.
        buffer = buffer_of(model, "model")
        config = _Config(size=ctypes.sizeof(_Config), theta=theta, t_min=t_min, t_max=t_max, period=period, seed=seed,
                         codec=None if codec is None else codec.encode())
        library.call("ringpressGossipInit", ctypes.byref(self.handle), buffer.address, ctypes.c_size_t(buffer.count),
                     buffer.type, ctypes.byref(config), communicator.handle, None)

    def step(self, model: Any) -> Dict[str, Any]:
        """After each step of training. Returns what it did: change, exchanged, peer (-1: nobody), sent_bytes, partial."""
        step = _Step(size=ctypes.sizeof(_Step))
        library.call("ringpressGossipStep", self.handle, buffer_of(model, "model", written=True).address,
                     ctypes.byref(step), None)
        return library.structure_as_dict(step)

    def flush(self, model: Any) -> None:
        """All models become their mean, the same bytes everywhere."""
        library.call("ringpressGossipFlush", self.handle, buffer_of(model, "model", written=True).address, None)

    def statistics(self) -> Dict[str, Any]:
        """steps, asked, exchanges and sent_bytes of this worker."""
        found = _Statistics(size=ctypes.sizeof(_Statistics))
        library.call("ringpressGossipGetStatistics", self.handle, ctypes.byref(found))
        return library.structure_as_dict(found)

    def destroy(self) -> None:
        """Ends it; the communicator goes on. A second call does nothing."""
        handle, self.handle = self.handle, ctypes.c_void_p()
        if handle:
            library.call("ringpressGossipDestroy", handle)
