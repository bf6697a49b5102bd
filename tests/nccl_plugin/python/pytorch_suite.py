#!/usr/bin/env python3
"""PyTorch's own tests of a distributed back end, on ours. Run by hand.

usage: pytorch_suite.py --output FILE [--ranks N] [--pattern TEXT]
  PYTHONPATH=nccl_plugin/python RINGPRESS=off python3 tests/nccl_plugin/python/pytorch_suite.py --output perf/results/torch-backend-VERSION.txt

Needs a torch whose wheel has torch.testing._internal.distributed, and the package expecttest. The file gets a line for each
test: passed, FAILED, or why it does not apply. Tests of GPUs and of back ends by name are those that PyTorch itself skips.
"""
import argparse
import collections
import os
import pathlib
import sys
import tempfile
import time
import unittest


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pattern", default="", help="only tests whose name has this")
    parser.add_argument("--seconds", type=int, default=100, help="that a test may take")
    return parser.parse_args()


def suite_class(options):
    """PyTorch's class, its ranks forked from this process, which has torch already."""
    folder = tempfile.mkdtemp(prefix="ringpress_suite_")
    os.environ.update(BACKEND="ringpress", WORLD_SIZE=str(options.ranks), TEMP_DIR=folder,
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(options.seconds), MASTER_ADDR="127.0.0.1")
    import torch  # pylint: disable=import-outside-toplevel
    import ringpress.torch  # pylint: disable=import-outside-toplevel
    from torch.testing._internal.distributed import distributed_test  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    ringpress.torch.build()

    class OnRingpress(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        """The tests, each on processes of its own."""

        def setUp(self):
            super().setUp()
            self._fork_processes()

    return OnRingpress


class Lines(unittest.TestResult):
    """A line for each test, written as it ends."""

    def __init__(self, file):
        super().__init__()
        self.file, self.counts = file, collections.Counter()

    def note(self, test, outcome, text=""):
        self.counts[outcome] += 1
        line = f"{outcome:14} {test.id().split('.')[-1]} {text}".rstrip()
        print(line, file=self.file, flush=True)
        print(line, flush=True)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "does not apply", reason.split("\n")[0])

    def addFailure(self, test, err):
        self.note(test, "FAILED", str(err[1]).strip().split("\n")[-1][:200])

    addError = addFailure


def main():
    options = parse_options()
    tests = suite_class(options)
    import torch  # pylint: disable=import-outside-toplevel
    names = [name for name in unittest.defaultTestLoader.getTestCaseNames(tests) if options.pattern in name]
    begin = time.monotonic()
    with open(options.output, "w", encoding="utf-8") as file:
        print(f"PyTorch's DistributedTest of torch {torch.__version__} on the back end ringpress, {options.ranks} ranks", file=file)
        result = Lines(file)
        unittest.TestSuite(tests(name) for name in names).run(result)
        counts = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(result.counts.items()))
        print(f"{counts}; {time.monotonic() - begin:.0f} s", file=file)
    return 1 if result.counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
