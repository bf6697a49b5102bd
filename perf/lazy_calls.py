#!/usr/bin/env python3
"""What the votes of RINGPRESS_LAZY cost a call: all-reduces as they are, all sent, and all put off, in turn.

  perf/shaped.sh --ranks 4 --rate 10mbit -- python3 perf/lazy_calls.py --folder EMPTY_FOLDER

Of one float32 tensor on host memory, uncompressed. Rank 0 prints a table of us a call: the median of rounds,
each of --calls calls of every kind.
"""
import argparse
import ctypes
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "train"))
import ringpress_api as api  # pylint: disable=wrong-import-position

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A threshold that every call is above, or none.
KINDS = {"lazy off": {"RINGPRESS_LAZY": "0"},
         "lazy, every call sent": {"RINGPRESS_LAZY": "0.001"},
         "lazy, every call put off": {"RINGPRESS_LAZY": "1e9", "RINGPRESS_LAZY_CALLS": "1000000000"}}
UNTIL_KNOWN = 10  # Calls until the tensor's place in the step is known: these are sent.


class Caller:
    """One communicator and its tensor."""

    def __init__(self, options, number, environment):
        folder = pathlib.Path(options.folder) / str(number)
        folder.mkdir(exist_ok=True)
        with api.environment(RINGPRESS_CODEC="none", **environment):
            self.communicator = api.Communicator(options.library, folder)
        count = options.bytes // 4
        self.values = (ctypes.c_float * count)(*[1.0] * count)
        self.call(options, UNTIL_KNOWN)

    def call(self, options, calls):
        """Seconds a call. Each begins with the same values: sums of sums would not stay finite."""
        handle, library = self.communicator.handle, self.communicator.library
        taken = 0.0
        for _ in range(calls):
            ctypes.memset(self.values, 0, options.bytes)
            self.values[0] = 1.0
            begin = time.perf_counter()
            library.call("ncclAllReduce", self.values, self.values, ctypes.c_size_t(options.bytes // 4),
                         api.FLOAT32, api.SUM, handle, None)
            taken += time.perf_counter() - begin
        return taken / calls


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", required=True, help="an empty folder that all ranks see")
    parser.add_argument("--library", default=str(ROOT / "build" / "lib" / "libringpress.so"))
    parser.add_argument("--bytes", type=int, default=65536)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20)
    options = parser.parse_args()
    callers = [Caller(options, number, environment)
               for number, environment in enumerate(KINDS.values())]
    times = [[] for _ in callers]
    for _ in range(options.rounds):
        for caller, taken in zip(callers, times):
            caller.call(options, 1)  # All begin together.
            taken.append(caller.call(options, options.calls) * 1e6)
    for caller in callers:
        caller.communicator.destroy()
    if callers[0].communicator.rank != 0:
        return
    print("| call | us | from | to |\n|---|---|---|---|")
    for kind, taken in zip(KINDS, times):
        print(f"| {kind} | {statistics.median(taken):.0f} | {min(taken):.0f} | {max(taken):.0f} |")


if __name__ == "__main__":
    sys.exit(main())
