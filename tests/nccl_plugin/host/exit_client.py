"""Two ranks that reach NCCL by ctypes and end in one of the ways that Python has.

usage: exit_client.py destroy|return|sys.exit|raise|terminated|dlclose|spawn|fork|fork_destroy
"""
import _ctypes
import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys


def work(rank, id_in, id_out):
    """Three all-reduces; gives the library and the communicator."""
    os.environ["NCCL_HOSTID"] = f"host{rank}"
    nccl = ctypes.CDLL("libnccl.so.2")

    class UniqueId(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * 128)]

    comm, unique_id = ctypes.c_void_p(), UniqueId()
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique_id)) == 0
        os.write(id_out, bytes(unique_id))
    else:
        ctypes.memmove(ctypes.byref(unique_id), os.read(id_in, 128), 128)
    assert nccl.ncclCommInitRank(ctypes.byref(comm), 2, unique_id, rank) == 0
    count = 65536
    values = (ctypes.c_float * count)(*((i * 37 % 101) / 7 * (rank + 1) for i in range(count)))
    for _ in range(3):
        assert nccl.ncclAllReduce(values, values, ctypes.c_size_t(count), 7, 0, comm, None) == 0
    return nccl, comm


def end(ending, nccl, comm):
    if ending in ("destroy", "fork_destroy"):
        assert nccl.ncclCommDestroy(comm) == 0
    elif ending == "dlclose":
        _ctypes.dlclose(nccl._handle)
    elif ending == "sys.exit":
        sys.exit(0)
    elif ending == "raise":
        raise RuntimeError("as asked for")
    elif ending == "terminated":
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        os.kill(os.getpid(), signal.SIGTERM)


def run(ending, rank, pipe):
    end(ending, *work(rank, *pipe))


def run_processes(ending, method):
    """Children of multiprocessing, to which the pipe's ends are inherited."""
    context = multiprocessing.get_context(method)
    reader, writer = context.Pipe(duplex=False)
    children = [context.Process(target=run_child, args=(ending, rank, reader, writer))
                for rank in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    return int(any(child.exitcode != 0 for child in children))


def run_child(ending, rank, reader, writer):
    run(ending, rank, (reader.fileno(), writer.fileno()))


def main():
    ending = sys.argv[1]
    if ending in ("spawn", "fork", "fork_destroy"):
        return run_processes(ending, ending.split("_")[0])
    if len(sys.argv) == 5:
        run(ending, int(sys.argv[2]), (int(sys.argv[3]), int(sys.argv[4])))
        return 0
    pipe = os.pipe()
    ranks = [subprocess.Popen([sys.executable, "-B", __file__, ending, str(rank), *map(str, pipe)],
                              pass_fds=pipe) for rank in range(2)]
    return int(any([rank.wait() for rank in ranks]))


if __name__ == "__main__":
    sys.exit(main())
