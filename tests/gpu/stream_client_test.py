#!/usr/bin/env python3
"""stream_client, and the judgement of what it prints, with a driver and an NCCL that know no GPU.

usage: stream_client_test.py BUILD DRIVER_FOLDER LIBRARY
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import ddp_run
import interposer
import machine

BUILD, DRIVER, LIBRARY = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
del sys.argv[1:4]


class Client(unittest.TestCase):
    def run_client(self, ranks, *scenarios, **variables):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copyfile(LIBRARY, f"{folder}/{machine.NCCL}")
            kept = {name: text for name, text in os.environ.items()
                    if not name.startswith(("NCCL_", "RINGPRESS"))}
            return subprocess.run(
                [BUILD / "perf" / "stream_client", str(ranks), *scenarios], text=True,
                capture_output=True, check=False, timeout=120,
                env={**kept, "LD_LIBRARY_PATH": f"{DRIVER}:{folder}",
                     "RINGPRESS_SOCKET_IFNAME": "lo", **variables})

    def test_groups_and_streams(self):
        done = self.run_client(3, "group", "streams", RINGPRESS="off")
        self.assertEqual(done.returncode, 0, done.stderr)
        labels = {"group", "streams"}
        self.assertEqual(interposer.judge_lines(done.stdout, 3, labels), [])
        self.assertEqual(len(interposer.read_lines(done.stdout)), 15)
        # The same results are wrong where they had to be compressed, and the other way round.
        self.assertEqual(len(interposer.judge_lines(done.stdout, 3, {"group"})), 12)
        lossy = self.run_client(2, "group", RINGPRESS_CODEC="q4")
        self.assertEqual(interposer.judge_lines(lossy.stdout, 2, set()), [])
        self.assertEqual(len(interposer.judge_lines(lossy.stdout, 2, labels)), 3)

    def test_what_is_put_off(self):
        done = self.run_client(2, "lazy", RINGPRESS_CODEC="q4", RINGPRESS_LAZY="4")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(interposer.judge_lines(done.stdout, 2, {"waited"}), [])
        self.assertGreater(done.stdout.count(" lazy "), 20)
        eager = self.run_client(2, "lazy", RINGPRESS_CODEC="q4")
        self.assertEqual(len(interposer.judge_lines(eager.stdout, 2, {"waited"})), 1)

    def test_steps(self):
        done = self.run_client(2, "steps", RINGPRESS_CODEC="auto", RINGPRESS_GRADIENTS="all")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(interposer.judge_lines(done.stdout, 2, set()), [])
        self.assertEqual(len(interposer.read_lines(done.stdout)), 24)
        self.assertEqual(len(interposer.judge_lines("0 step aa 0.4\n1 step aa 0.4\n", 2, set())), 1)

    def test_coordinate_scales(self):
        with tempfile.TemporaryDirectory() as folder:
            counted = pathlib.Path(folder) / "statistics"
            variables = {"RINGPRESS_EF": "scales"}
            done = self.run_client(2, "steps", RINGPRESS_CODEC="q4", RINGPRESS_STATS=str(counted), **variables)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(interposer.judge_lines(done.stdout, 2, set()), [])
            self.assertEqual(interposer.judge_scales(variables, counted.read_text()), [])
        self.assertEqual(len(interposer.judge_scales(variables, '{"scaled_calls": 0}')), 1)
        self.assertEqual(interposer.judge_scales({}, ""), [])

    def test_no_graphs_without_a_gpu(self):
        self.assertNotEqual(self.run_client(2, "graph").returncode, 0)


class Judgement(unittest.TestCase):
    def test_ranks_that_differ_are_noticed(self):
        text = "0 graph aa 0.1\n1 graph ab 0.1\n"
        self.assertIn("different bytes", interposer.judge_lines(text, 2, set())[0])
        self.assertIn("different bytes", interposer.judge_lines("0 graph aa 0.1\n", 2, set())[0])
        self.assertEqual(interposer.judge_lines("", 2, set()), ["it left no results"])

    def test_the_course_of_a_loss(self):
        plain = [5.0 - step / 100 for step in range(ddp_run.STEPS)]
        near = [loss * 1.005 for loss in plain]
        counted = [{"calls": 500, "compressed_calls": 300}]
        far = [loss * 1.02 for loss in plain]
        nothing = [{"calls": 500, "compressed_calls": 0}]
        everything = [{"calls": 300, "compressed_calls": 300}]
        self.assertEqual(ddp_run.compare(plain, near, counted)[0], [])
        for ours, count in ((plain, counted), (far, counted), (near, nothing), (near, everything)):
            self.assertEqual(len(ddp_run.compare(plain, ours, count)[0]), 1)


if __name__ == "__main__":
    unittest.main()
