#!/usr/bin/env python3
"""Memory that the library takes for an all-reduce, besides the caller's buffers and error feedback.

  python3 perf/engine_memory.py            2 and 4 ranks of one host, shared memory and TCP

Each rank is a process. Its buffers are touched first; what counts is how far its resident memory
rises at most, from before the communicator is made until after three calls, minus the residual.
Pages of other ranks that it reads count too, so the figure is an upper bound.
Prints a table in bytes; the largest rank counts.
"""
import argparse
import ctypes
import mmap
import os
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLOAT32, SUM = 7, 0
LIMIT_BYTES, LIMIT_BYTES_PER_PEER = 32 << 20, 4 << 20


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Statistics(ctypes.Structure):
    """ringpressStatistics_t; only what is read here has a name."""
    _fields_ = [("size", ctypes.c_size_t), ("calls", ctypes.c_uint64), ("compressed_calls", ctypes.c_uint64),
                ("raw_bytes", ctypes.c_uint64), ("wire_bytes", ctypes.c_uint64),
                ("residual_bytes", ctypes.c_uint64), ("texts", ctypes.c_char * 304)]


def resident_bytes(key):
    for line in open("/proc/self/status", encoding="ascii"):
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {key} in /proc/self/status")


def run_rank(arguments, size, rank, ranks, identity, give_id):
    """Bytes that this rank's engine took."""
    library = ctypes.CDLL(str(arguments.library))
    library.ncclCommInitRank.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, UniqueId,
                                         ctypes.c_int]
    unique = UniqueId()
    if rank == 0:
        check(library.ncclGetUniqueId(ctypes.byref(unique)), "ncclGetUniqueId")
        give_id(bytes(ctypes.string_at(ctypes.byref(unique), 128)))
    else:
        ctypes.memmove(ctypes.byref(unique), identity(), 128)
    buffer = mmap.mmap(-1, size)
    address = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
    ctypes.memset(address, 0x3f, size)  # 0.75, so that nothing is skipped as zero.
    before = resident_bytes("VmRSS")
    with open("/proc/self/clear_refs", "w", encoding="ascii") as reset:
        reset.write("5")  # The peak starts here.
    comm = ctypes.c_void_p()
    check(library.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank), "ncclCommInitRank")
    for _ in range(3):
        check(library.ncclAllReduce(ctypes.c_void_p(address), ctypes.c_void_p(address),
                                    ctypes.c_size_t(size // 4), FLOAT32, SUM, comm, None),
              "ncclAllReduce")
    peak = resident_bytes("VmHWM")
    statistics = Statistics(size=ctypes.sizeof(Statistics))
    check(library.ringpressGetStatistics(comm, ctypes.byref(statistics)), "ringpressGetStatistics")
    check(library.ncclCommDestroy(comm), "ncclCommDestroy")
    return max(0, peak - before - statistics.residual_bytes)


def check(result, what):
    if result != 0:
        raise RuntimeError(f"{what} returned {result}")


def measure(arguments, size, ranks, codec, shared_memory):
    """The largest rank's bytes."""
    os.environ.update(RINGPRESS_CODEC=codec, RINGPRESS_SHM=str(int(shared_memory)))
    ids = [os.pipe() for _ in range(ranks)]
    results_read, results_write = os.pipe()
    children = []
    for rank in range(ranks):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                taken = run_rank(arguments, size, rank, ranks,
                                 lambda rank=rank: os.read(ids[rank][0], 128),
                                 lambda data: [os.write(pipe[1], data) for pipe in ids[1:]])
                os.write(results_write, struct.pack("q", taken))
                status = 0
            except (RuntimeError, OSError) as error:
                print(f"rank {rank}: {error}", file=sys.stderr)
            os._exit(status)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    taken = [] if failed else [struct.unpack("q", os.read(results_read, 8))[0]
                               for _ in range(ranks)]
    for descriptor in [results_read, results_write, *(end for pipe in ids for end in pipe)]:
        os.close(descriptor)
    if failed:
        raise RuntimeError(f"{len(failed)} ranks failed")
    return max(taken)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=pathlib.Path,
                        default=ROOT / "build" / "lib" / "libringpress.so")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 16, 256])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--codecs", nargs="+", default=["none", "q8", "q4", "q2"])
    arguments = parser.parse_args()
    print(f"{'ranks':>5} {'medium':>6} {'codec':>6} {'size':>7} {'engine, MB':>11} {'limit, MB':>10}")
    within = True
    for ranks in arguments.ranks:
        limit = LIMIT_BYTES + LIMIT_BYTES_PER_PEER * (ranks - 1)
        for shared_memory in (True, False):
            for codec in arguments.codecs:
                for megabytes in arguments.megabytes:
                    taken = measure(arguments, megabytes << 20, ranks, codec, shared_memory)
                    within = within and taken <= limit
                    print(f"{ranks:>5} {'shm' if shared_memory else 'tcp':>6} {codec:>6} "
                          f"{megabytes:>4} MB {taken / (1 << 20):>11.1f} {limit >> 20:>10}",
                          flush=True)
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
