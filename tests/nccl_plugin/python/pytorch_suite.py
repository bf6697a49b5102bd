#!/usr/bin/env python3
"""PyTorch's own tests of a distributed back end, on ours. Run by hand.

usage: pytorch_suite.py --output FILE [--ranks N] [--pattern TEXT] [--seconds N]
  PYTHONPATH=nccl_plugin/python RINGPRESS=off python3 tests/nccl_plugin/python/pytorch_suite.py \\
      --ranks 4 --output perf/results/pytorch-suite.txt

Needs a torch whose wheel has torch.testing._internal.distributed, and the package expecttest. PyTorch skips tests by the
name of the back end. A test that it skips for a back end of another name is run here if it would run for Gloo or MPI. The
file gets counts, why tests do not apply, and a line for each test.
"""
import argparse
import collections
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import tempfile
import time
import unittest

NAME = "ringpress"
LIKE = (NAME, "gloo", "mpi")  # A test is run as PyTorch runs it for the first of these that it does not skip.
# What the back end does not do, by the pages of the package.
REFUSED = {
    "any_source": "recv from any rank is refused",
    "monitored_barrier": "monitored_barrier() is torch's for Gloo alone",
    "test_ddp_logging_data_cpu": "torch's log of DDP calls each back end that is not its own 'custom'",
}
ENOUGH = 4  # Ranks. PyTorch asks for 8, of which its tests of groups use two or all.
# Decorators of PyTorch's tests.
NEEDS = {
    "skip_if_no_gpu": "needs a GPU for each rank",
    "skip_if_lt_x_gpu": "needs GPUs",
    "require_n_gpus_for_nccl_backend": "needs GPUs",
    "skip_if_small_worldsize": f"a group beside ranks that are not in it: needs --ranks {ENOUGH}",
}


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pattern", default="", help="only tests whose name has this")
    parser.add_argument("--seconds", type=int, default=200, help="that a test, or one call in it, may take")
    return parser.parse_args()


def suite_module(like, seconds):
    """PyTorch's module of tests with what it runs for the back end `like`; its ranks then use ours."""
    os.environ["BACKEND"] = like
    name = "torch.testing._internal.distributed.distributed_test"
    found = importlib.util.find_spec(name)
    spec = importlib.util.spec_from_file_location(f"distributed_test_{like}", found.origin)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    os.environ["BACKEND"] = module.BACKEND = NAME
    # A busy machine is no fault of a test.
    module.default_pg_timeout = seconds
    module.Barrier.sync.__func__.__defaults__ = (None, seconds)
    return module


def suite_class(like, options):
    """PyTorch's class, its ranks forked from this process, which has torch already."""
    import torch  # pylint: disable=import-outside-toplevel
    module = suite_module(like, options.seconds)

    class OnRingpress(module.TestDistBackend, module.DistributedTest._DistTestBase):
        """The tests, each on processes of its own."""

        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return OnRingpress


def prepare(options):
    """What PyTorch asks of back ends by name; the back end, compiled; the variables that PyTorch's tests read."""
    os.environ.update(BACKEND=NAME, WORLD_SIZE=str(options.ranks), TEMP_DIR=tempfile.mkdtemp(prefix="ringpress_suite_"),
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(options.seconds), MASTER_ADDR="127.0.0.1")
    os.environ.setdefault("INIT_METHOD", f"file://{os.environ['TEMP_DIR']}/meeting")
    import torch  # pylint: disable=import-outside-toplevel
    import ringpress.torch  # pylint: disable=import-outside-toplevel
    from torch.testing._internal import common_distributed  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    ringpress.torch.build()
    for feature in ("ddp", "subgroup"):
        common_distributed.DistTestCases.backend_feature[feature].add(NAME)
    if options.ranks >= ENOUGH:
        common_distributed.skip_if_small_worldsize = lambda test: test
        del NEEDS["skip_if_small_worldsize"]
    return torch.__version__


class Lines(unittest.TestResult):
    """A line for each test, written as it ends."""

    def __init__(self):
        super().__init__()
        self.lines, self.counts, self.reasons = [], collections.Counter(), collections.Counter()

    def note(self, test, outcome, text=""):
        self.counts[outcome] += 1
        name = test if isinstance(test, str) else test.id().split(".")[-1]
        self.lines.append(f"{outcome:14} {name} {text}".rstrip())
        print(self.lines[-1], flush=True)

    def does_not_apply(self, test, reason):
        self.reasons[reason] += 1
        self.note(test, "does not apply", reason)

    def addSuccess(self, test):
        self.note(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.does_not_apply(test, reason.split("\n")[0])

    def addFailure(self, test, err):
        lines = [line for line in str(err[1]).strip().split("\n") if re.match(r"\w*(Error|Exception|\.\w+): ", line)]
        self.note(test, "FAILED", (lines or str(err[1]).strip().split("\n"))[-1][:200])
        print(err[1], file=sys.stderr, flush=True)

    addError = addFailure


def device_reason(tests, name):
    """Why a test ends at once on a machine without GPUs and with few ranks. Such tests are not started."""
    decorators = inspect.getsource(inspect.unwrap(getattr(tests, name))).split("def ")[0]
    return next((reason for part, reason in NEEDS.items() if part in decorators), None)


def is_skipped(tests, name):
    return getattr(tests, "__unittest_skip__", False) or getattr(getattr(tests, name), "__unittest_skip__", False)


def run(options):
    classes = [suite_class(like, options) for like in LIKE]
    result = Lines()
    for name in unittest.defaultTestLoader.getTestCaseNames(classes[0]):
        if options.pattern not in name:
            continue
        tests = next((tests for tests in classes if not is_skipped(tests, name)), classes[0])
        reason = next((reason for part, reason in REFUSED.items() if part in name), device_reason(tests, name))
        if reason is not None:
            result.does_not_apply(name, reason)
        else:
            unittest.TestSuite([tests(name)]).run(result)
    return result


def write(options, version, result, seconds):
    counts = ", ".join(f"{outcome}: {count}" for outcome, count in sorted(result.counts.items()))
    with open(options.output, "w", encoding="utf-8") as file:
        print(f"PyTorch's DistributedTest of torch {version} on the back end ringpress, {options.ranks} ranks, "
              f"RINGPRESS={os.environ.get('RINGPRESS', '')}", file=file)
        print(f"$ python3 {' '.join(sys.argv)}", file=file)
        print(f"{counts}; {seconds:.0f} s on {os.cpu_count()} cores, {time.strftime('%Y-%m-%d', time.gmtime())}", file=file)
        print("\nWhy tests do not apply:", file=file)
        for reason, count in result.reasons.most_common():
            print(f"{count:4} {reason}", file=file)
        print("\n" + "\n".join(result.lines), file=file)


def main():
    options = parse_options()
    version = prepare(options)
    begin = time.monotonic()
    result = run(options)
    write(options, version, result, time.monotonic() - begin)
    return 1 if result.counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main())
