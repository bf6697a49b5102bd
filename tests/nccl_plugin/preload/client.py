"""Two ranks that reach NCCL as Python frameworks do: by ctypes, in processes of their own.

usage: preload_client.py LIBRARY     Prints "RANK VERSION RELATIVE_ERROR SUM_OF_ALL" for each.
"""
import ctypes
import os
import sys


def run(rank, library, pipe):
    os.environ["NCCL_HOSTID"] = f"host{rank}"
    nccl = ctypes.CDLL(library)

    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    version, comm, unique_id = ctypes.c_int(), ctypes.c_void_p(), UniqueId()
    assert nccl.ncclGetVersion(ctypes.byref(version)) == 0
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique_id)) == 0
        os.write(pipe[1], bytes(unique_id))
    else:
        ctypes.memmove(ctypes.byref(unique_id), os.read(pipe[0], 128), 128)
    assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique_id, rank) == 0
    count = 65536
    values = (ctypes.c_float * count)(*((i * 37 % 101) / 7 * (rank + 1) for i in range(count)))
    assert nccl.ncclAllReduce(values, values, ctypes.c_size_t(count), 7, 0, comm, None) == 0
    exact = [(i * 37 % 101) / 7 * 3 for i in range(count)]
    error = sum((a - b) ** 2 for a, b in zip(values, exact)) / sum(b * b for b in exact)
    assert nccl.ncclCommDestroy(comm) == 0
    os.write(1, f"{rank} {version.value} {error ** 0.5:.3g} {sum(values):.6f}\n".encode())


def main():
    pipe = os.pipe()
    children = []
    for rank in range(2):
        child = os.fork()
        if child == 0:
            run(rank, sys.argv[1], pipe)
            os._exit(0)
        children.append(child)
    return int(any(os.waitpid(child, 0)[1] != 0 for child in children))


if __name__ == "__main__":
    sys.exit(main())
