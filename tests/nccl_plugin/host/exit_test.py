"""What a program leaves in the files of RINGPRESS_STATS and RINGPRESS_TRACE, whatever way it ends.

usage: exit_test.py CLIENT LIBRARY [SHIM]
  CLIENT   exit_client, linked with LIBRARY
  LIBRARY  libringpress, or with SHIM the stand-in for NCCL
  SHIM     what is preloaded, for door A
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

CLIENT, LIBRARY = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
SHIM = pathlib.Path(sys.argv[3]).resolve() if len(sys.argv) > 3 else None
PYTHON_CLIENT = pathlib.Path(__file__).with_name("exit_client.py")
SETTINGS = {"RINGPRESS_CODEC": "q4", "RINGPRESS_DEBUG": "error", "RINGPRESS_TIMEOUT_MS": "20000",
            "RINGPRESS_SOCKET_IFNAME": "lo", "RINGPRESS_MIN_BYTES": "4096",
            "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
            # One way to end is exit() in a handler of a signal.
            "TSAN_OPTIONS": os.environ.get("TSAN_OPTIONS", "") + ":report_signal_unsafe=0"}
OF_TIME = ("pid", "nanoseconds", "host_nanoseconds", "longest_wait_nanoseconds")
# A process without them loads no library that has a sanitizer's runtime.
IS_SANITIZED = "RINGPRESS_SANITIZED" in os.environ


def environment(folder, **more):
    door_a = {"LD_PRELOAD": str(SHIM), "RINGPRESS_BACKEND": "host"} if SHIM else {}
    libraries = f"{LIBRARY.parent}/host:{LIBRARY.parent}"  # In one of them it is called libnccl.so.2.
    return {**os.environ, **SETTINGS, **door_a, "LD_LIBRARY_PATH": libraries,
            "RINGPRESS_STATS": f"{folder}/statistics", "RINGPRESS_TRACE": f"{folder}/trace", **more}


def without_times(line):
    """How much it takes to measure the link for the trace is a matter of times, too."""
    kept = {name: value for name, value in line.items() if name not in OF_TIME}
    kept["wire_bytes"] -= kept.pop("calibration_bytes", 0)
    return kept


class Left:
    """By a run of `command`: the lines of statistics by rank, and the trace."""

    def __init__(self, command, **more):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run(command, env=environment(folder, **more), timeout=200, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.code, self.output = run.returncode, run.stdout
            statistics = pathlib.Path(folder, "statistics")
            text = statistics.read_text("utf-8") if statistics.exists() else ""
            trace = pathlib.Path(folder, "trace")
            self.trace = json.loads(trace.read_text("utf-8")) if trace.exists() else None
        self.whole = [json.loads(line) for line in text.splitlines()]
        self.lines = sorted(map(without_times, self.whole), key=lambda line: json.dumps(line))

    def sizes(self):
        """Of the step's tensors, whichever comes first."""
        return self.trace and sorted(tensor["bytes"] for tensor in self.trace["tensors"])


def left_by(ending, ranks=2, **more):
    left = Left([CLIENT, str(ranks), ending], **more)
    if left.code != 0:
        raise AssertionError(f"{ending}: {left.code}: {left.output}")
    return left


class Endings(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.destroyed = left_by("destroy")

    def test_a_program_that_destroys(self):
        lines = self.destroyed.lines
        self.assertEqual([(line["rank"], line["ranks"], line["calls"]) for line in
                          sorted(lines, key=lambda line: line["rank"])], [(0, 2, 24), (1, 2, 24)])
        for line in lines:
            self.assertEqual(line["compressed_calls"], 16)
        self.assertEqual(self.destroyed.sizes(), [1200, 80000, 280000])

    def check_same(self, left, ending):
        if ending in ("revoke", "abort") and not SHIM:
            for line in left.lines:  # The other ranks are told.
                line["wire_bytes"] = self.destroyed.lines[0]["wire_bytes"]
        self.assertEqual(left.lines, self.destroyed.lines, ending)
        self.assertEqual(left.sizes(), self.destroyed.sizes(), ending)

    def test_leave_the_same(self):
        for ending in ("return", "exit", "thread_exit", "finalize", "revoke", "abort",
                       "earlier_handler", "later_handler", "forked"):
            with self.subTest(ending):
                self.check_same(left_by(ending), ending)

    def test_with_a_call_under_way(self):
        """It is not counted, though some of it may have been sent."""
        for ending in ("under_way", "signaled"):
            with self.subTest(ending):
                left = left_by(ending)
                for lines in (left.lines, expected := json.loads(json.dumps(self.destroyed.lines))):
                    for line in lines:
                        del line["wire_bytes"], line["exact_calls"], line["last_reason"]
                by_rank = [sorted(lines, key=lambda line: line["rank"])
                           for lines in (left.lines, expected)]
                self.assertEqual(*by_rank)
                self.assertEqual(left.sizes(), self.destroyed.sizes())

    def test_while_another_thread_makes_calls(self):
        for more in ({}, {"RINGPRESS_CODEC": "none"}, {"RINGPRESS_LAZY": "2"}):
            with self.subTest(more):
                lines = left_by("busy", **more).lines
                self.assertEqual(sorted(line["rank"] for line in lines), [0, 1])
                for line in lines:
                    self.assertGreaterEqual(line["calls"], 24)

    def test_with_a_communicator_in_the_making(self):
        left = left_by("in_the_making")
        other = [line for line in left.lines if line["ranks"] == 0]
        self.assertEqual([line for line in left.lines if line["ranks"] != 0], self.destroyed.lines)
        # At door A it is there for the real library alone.
        self.assertEqual([line["calls"] for line in other], [0] if SHIM else [])

    @unittest.skipIf(IS_SANITIZED, "sanitizers allow no threads there")
    def test_of_a_forked_process(self):
        left = left_by("forked_with_its_own")
        own = [line for line in left.lines if line["ranks"] == 1]
        self.assertEqual([line for line in left.lines if line["ranks"] == 2], self.destroyed.lines)
        # At door A such a process is left to the real library, and a warning says so.
        self.assertEqual([line["calls"] for line in own], [] if SHIM else [1, 1])
        self.assertEqual(len({line["pid"] for line in left.whole}), len(left.whole))

    def test_each_communicator_has_its_line(self):
        left, expected = left_by("two"), left_by("two_destroy")
        self.assertEqual(left.lines, expected.lines)
        self.assertEqual(len(left.lines), 4)

    def test_nonblocking(self):
        left, expected = left_by("nonblocking"), left_by("nonblocking_destroy")
        self.assertEqual(left.lines, expected.lines)
        self.assertEqual([line["calls"] for line in left.lines], [5, 5])

    def test_what_is_left_exact_is_counted(self):
        more = {"RINGPRESS_CODEC": "none"}
        left, expected = left_by("return", **more), left_by("destroy", **more)
        self.assertEqual(left.lines, expected.lines)
        self.assertEqual(left.sizes(), expected.sizes())
        alone = left_by("return", ranks=1)
        self.assertEqual([line["calls"] for line in alone.lines], [24])

    def test_what_was_put_off_is_counted(self):
        more = {"RINGPRESS_LAZY": "1000", "RINGPRESS_LAZY_CALLS": "100"}
        left, expected = left_by("return", **more), left_by("destroy", **more)
        self.assertEqual(left.lines, expected.lines)
        if not SHIM:  # There it needs a device.
            self.assertGreater(left.lines[0]["unsent_tensors"], 0)

    def test_an_end_without_exit_leaves_nothing(self):
        """Which is said in session/calls/compressed.md."""
        self.assertEqual(left_by("_exit").lines, [])


@unittest.skipIf(IS_SANITIZED, "an interpreter loads no sanitizer's runtime")
class Python(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.destroyed = cls.left_by("destroy")

    @staticmethod
    def left_by(ending):
        more = {}
        if SHIM:  # It answers programs that open NCCL by its name.
            more = {"LD_PRELOAD": str(SHIM.parent / "preload" / "libnccl.so.2"),
                    "RINGPRESS_REAL_NCCL": str(LIBRARY)}
        return Left([sys.executable, "-B", PYTHON_CLIENT, ending], **more)

    def test_leaves_the_same(self):
        self.assertEqual([line["calls"] for line in self.destroyed.lines], [3, 3])
        for ending, code in (("return", 0), ("sys.exit", 0), ("raise", 1), ("terminated", 0),
                             ("spawn", 0), ("dlclose", 0)):
            with self.subTest(ending):
                left = self.left_by(ending)
                self.assertEqual(left.code, code, left.output)
                self.assertEqual(left.lines, self.destroyed.lines, left.output)

    def test_children_that_multiprocessing_forked_end_by_os_exit(self):
        self.assertEqual(self.left_by("fork").lines, [])
        self.assertEqual(self.left_by("fork_destroy").lines, self.destroyed.lines)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
