"""ringpress: compressed all-reduce on host memory.

By default gradients lose something: large sums that recur between hosts are sent at about 4 bits a value.
RINGPRESS=lossless in the environment loses nothing, RINGPRESS=off compresses nothing. Settings are read when a
communicator is made, and are the same on all ranks.

    import numpy, ringpress
    with ringpress.communicator(folder="/shared/empty") as comm:   # RANK and WORLD_SIZE as torchrun sets them
        gradients = numpy.ones(1_000_000, numpy.float32)
        comm.all_reduce(gradients, op="avg")

`import ringpress.torch` adds the process-group back end "ringpress" to torch.distributed.
"""
from .communicator import Communicator, communicator, exchange_by_folder, unique_id
from .errors import (InvalidArgumentError, InvalidUsageError, LibraryNotFoundError, RemoteError, RingpressError,
                     SystemError, TwoLibrariesWarning)
from .gossip import Gossip
from .library import include_folder, version
from .library import path as library_path

__all__ = ["Communicator", "Gossip", "InvalidArgumentError", "InvalidUsageError", "LibraryNotFoundError",
           "RemoteError", "RingpressError", "SystemError", "TwoLibrariesWarning", "communicator",
           "exchange_by_folder", "include_folder", "library_path", "unique_id", "version"]
