"""Runs a function on several ranks, each a process of its own."""
import multiprocessing
import os
import pathlib
import sys
import sysconfig
import tempfile
import traceback

LIMIT = 600  # Seconds. A rank that hangs is a fault, on a busy machine too.


def _rank_main(function, rank, size, folder, results):
    try:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
        results.put((rank, None, function(rank, size, folder)))
    except BaseException:  # pylint: disable=broad-except
        results.put((rank, traceback.format_exc(), None))


def run(function, size):
    """What function(rank, size, folder) returned on each rank, in their order. `folder` is empty and the same for all.

    Raises AssertionError with the trace of the first rank that failed.
    """
    context = multiprocessing.get_context("fork")
    results, returned = context.Queue(), {}
    with tempfile.TemporaryDirectory() as folder:
        processes = [context.Process(target=_rank_main, args=(function, rank, size, folder, results), daemon=True)
                     for rank in range(size)]
        for process in processes:
            process.start()
        try:
            for _ in range(size):
                rank, error, value = results.get(timeout=LIMIT)
                assert error is None, f"rank {rank} of {size}:\n{error}"
                returned[rank] = value
        finally:
            for process in processes:
                process.join(timeout=20 if len(returned) == size else 1)
                process.kill()
    return [returned[rank] for rank in range(size)]


def need_headers():
    """Ends the test, as skipped, where the back end cannot be compiled for want of what torch or Python is built with."""
    import torch  # pylint: disable=import-outside-toplevel
    folders = [pathlib.Path(torch.__file__).resolve().parent / "include", pathlib.Path("/usr/include"),
               pathlib.Path("/usr/local/include"), pathlib.Path(sysconfig.get_path("include"))]
    for header in ("torch/extension.h", "pybind11/pybind11.h", "Python.h"):
        if not any((folder / header).is_file() for folder in folders):
            print(f"there is no {header}: nothing was tested")
            sys.exit(77)
