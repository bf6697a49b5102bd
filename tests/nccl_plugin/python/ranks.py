"""Runs a function on several ranks, each a process of its own."""
import multiprocessing
import os
import tempfile
import traceback

LIMIT = 240  # Seconds. A rank that hangs is a fault, on a busy machine too.


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
