#!/usr/bin/env python3
"""step_perf as people run it, and the way from programs over RINGPRESS_TRACE to a plan.

usage: step_test.py STEP_PERF STEP_PROGRAM RINGPRESS
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

RINGPRESS = pathlib.Path(sys.argv.pop()).resolve()
SHAPES = pathlib.Path(sys.argv.pop()).resolve()
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()

SIZES = [400000, 40, 4000, 1200000]
JOB = {
    "name": "small", "machines": 2, "gpus_per_machine": 1, "forward_ms": 40,
    "inside": {"latency_us": 5, "gigabytes_per_second": 1},
    "between": {"latency_us": 5, "gigabytes_per_second": 1},
    "tensors": [{"bytes": size, "backward_us": 10000} for size in SIZES],
}


class Step(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.job = self.folder / "job.json"
        self.job.write_text(json.dumps(JOB))

    def run_program(self, *words, **environment):
        done = subprocess.run([str(word) for word in words], capture_output=True, check=False,
                              timeout=200, env={**os.environ, **environment})
        # The line that every job begins with is no complaint.
        complaints = re.sub(r"^ringpress \[\d+\] \d+\.\d+\.\d+ .*\n", "", done.stderr.decode(errors="replace"), flags=re.M)
        return done.returncode, done.stdout.decode(), complaints

    def test_a_program_is_recorded_and_planned_for(self):
        trace, results = self.folder / "trace.json", self.folder / "results.json"
        code, out, error = self.run_program(
            PROGRAM, self.job, "--ranks", 3, "--steps", 5, "-J", results, RINGPRESS_TRACE=str(trace))
        self.assertEqual((code, error), (0, ""))
        self.assertIn("| largest half | 1 |", out)
        measured = json.loads(results.read_text())
        self.assertEqual(measured["ranks"], 3)
        names = [strategy["strategy"] for strategy in measured["strategies"]]
        self.assertEqual(names, ["nothing", "everything", "largest half", "plan"])
        for strategy in measured["strategies"]:
            self.assertEqual(len(strategy["steps"]), 5)
            self.assertGreaterEqual(strategy["predicted_seconds"], 0.08)
            # What passes as compute passes whatever the library does.
            self.assertGreaterEqual(min(strategy["steps"]), 0.08)
            # Calls of 40 and 4000 bytes are too small, whatever the strategy says.
            large = [one for one, size in zip(strategy["compressed"], SIZES) if one and size > 65536]
            self.assertAlmostEqual(strategy["compressed_calls"], len(large))
        self.assertIn("| everything | 2 |", out)
        recorded = json.loads(trace.read_text())
        self.assertEqual([tensor["bytes"] for tensor in recorded["tensors"]], SIZES)
        self.assertEqual(recorded["machines"], 3)
        self.assertGreaterEqual(recorded["forward_ms"], 50)
        code, out, error = self.run_program(RINGPRESS, "plan", "--json", trace)
        self.assertEqual((code, error), (0, ""))
        planned = json.loads(out)
        self.assertEqual(len(planned["tensors"]), len(SIZES))
        self.assertLessEqual(planned["plan_ms"], planned["nothing_ms"])

    def test_what_automatic_mode_did_is_told_of_the_measured_steps(self):
        code, out, error = self.run_program(PROGRAM, self.job, "--ranks", 2, "--steps", 3, "--times", 0.1,
                                            "--automatic", 2)
        self.assertEqual((code, error), (0, ""))
        lines = out[out.index("automatic, after 2 steps"):].splitlines()
        self.assertIn("of the calls of 3 steps", lines[0])
        counts = [int(line.split()[0]) for line in lines[1:] if line.startswith("  ")]
        self.assertEqual(sum(counts), 3 * len(SIZES))

    def tensors_of(self, shape, compute):
        """Those of the trace of a program that computes 5 ms for each of three gradients. Of what is computed
        then, the trace says most, or nothing: half of it tells which, also on a busy machine."""
        trace = self.folder / "trace.json"
        code, _, error = self.run_program(
            SHAPES, "--shape", shape, "--compute", compute, "--ranks", 2, "--forward", 20, "--backward",
            5, "-n", 16, 40, 80, 60, RINGPRESS_CODEC="none", RINGPRESS_TRACE=str(trace))
        self.assertEqual((code, error), (0, ""), shape)
        code, out, error = self.run_program(RINGPRESS, "plan", "--json", trace)
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(len(json.loads(out)["tensors"]), 3)
        tensors = json.loads(trace.read_text())["tensors"]
        self.assertEqual([tensor["bytes"] for tensor in tensors], [40000, 80000, 60000])
        return tensors[1:]

    def assert_shown(self, shape, compute, is_shown):
        """Of each tensor of a trace. On a busy machine, others' programs can hide it in one trace, hardly in
        each of several. What the recorder makes of given times is tested beside it."""
        seen = []
        while len(seen) < 4:
            tensors = self.tensors_of(shape, compute)
            if all(is_shown(tensor) for tensor in tensors):
                return
            seen.append(tensors)
        self.fail((shape, compute, seen))

    def test_what_is_computed_after_a_wait_is_not_taken_to_overlap(self):
        for shape, compute in (("waits", "burns"), ("nonblocking-waits", "sleeps"),
                               ("nonblocking-waits", "burns")):
            self.assert_shown(shape, compute, lambda tensor: tensor.get("after_call_us", 0) >= 2500)

    def test_what_is_computed_before_a_wait_is_taken_to_overlap(self):
        self.assert_shown("nonblocking", "sleeps",
                          lambda tensor: tensor["backward_us"] >= 2500 and "after_call_us" in tensor)

    def test_calls_of_a_group_are_ready_at_once(self):
        for tensor in self.tensors_of("group", "sleeps"):
            self.assertEqual(tensor["backward_us"], 0)
            self.assertNotIn("after_call_us", tensor)

    def test_factors(self):
        results = self.folder / "results.json"
        code, out, error = self.run_program(PROGRAM, self.job, "--ranks", 2, "--steps", 1, "--warmup", 0,
                                            "--sizes", 0.1, "--times", 0.1, "-J", results)
        self.assertEqual((code, error), (0, ""))
        self.assertIn("forward 4.0 ms, backward 4.0 ms", out)
        self.assertEqual(json.loads(results.read_text())["size_factor"], 0.1)

    def test_what_automatic_mode_leaves_exact_is_said_with_the_reason(self):
        code, out, error = self.run_program(PROGRAM, self.job, "--ranks", 2, "--steps", 1, "--warmup", 0,
                                            "--times", 0.01, "--automatic", 4)
        self.assertEqual((code, error), (0, ""))
        self.assertRegex(out, r"\nautomatic, after 4 steps: \d+\.\d ms; of the calls of 1 steps\n")
        self.assertIn("\n  2 exact: all ranks share one host\n"
                      "  2 exact: smaller than RINGPRESS_MIN_BYTES\n", out)

    def test_mistakes(self):
        for words in (["--ranks", 2], [self.job, "--ranks", 1], [self.folder / "none", "--ranks", 2],
                      [self.job, "--ranks", 2, "--sizes", 0],
                      [self.job, "--ranks", 2, "--automatic", 0]):
            code, _, error = self.run_program(PROGRAM, *words)
            self.assertNotEqual(error, "", words)
            self.assertIn(code, (2,), words)
        self.job.write_text(json.dumps({**JOB, "machines": 0}))
        code, _, error = self.run_program(PROGRAM, self.job, "--ranks", 2)
        self.assertEqual(code, 2)
        self.assertIn("machines: must be a whole number", error)


if __name__ == "__main__":
    unittest.main()
