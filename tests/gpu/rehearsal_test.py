#!/usr/bin/env python3
"""all_reduce_perf_cuda and the whole of run.sh, with a driver and an NCCL that know no GPU.

usage: rehearsal_test.py BUILD DRIVER_FOLDER LIBRARY [unittest's arguments]
BUILD has all_reduce_perf_cuda, DRIVER_FOLDER a libcuda.so.1 of fake_cuda.c, LIBRARY is this library
for host memory, which takes NCCL's place.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

import machine
import pacing
import plugin
import run

HERE = pathlib.Path(__file__).resolve().parent
BUILD, DRIVER, LIBRARY = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
del sys.argv[1:4]


class WithLibraries(unittest.TestCase):
    """An environment where this library is NCCL, and the driver has fake GPUs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "nccl").mkdir()
        shutil.copyfile(LIBRARY, self.folder / "nccl" / machine.NCCL)
        self.environment = {name: text for name, text in os.environ.items()
                            if not name.startswith(("NCCL_", "RINGPRESS"))}
        self.environment["LD_LIBRARY_PATH"] = f"{DRIVER}:{self.folder}/nccl"


class Program(WithLibraries):
    def run_program(self, *arguments, **variables):
        done = subprocess.run([BUILD / "perf" / "all_reduce_perf_cuda", *arguments],
                              capture_output=True, text=True, check=False, timeout=120,
                              env={**self.environment, **variables})
        return done.returncode, done.stdout, done.stderr

    def test_no_device_is_said_in_one_line(self):
        for ranks in ([], ["--ranks", "3"]):
            status, out, error = self.run_program(*ranks, FAKE_CUDA_DEVICES="0")
            self.assertEqual((status, out), (1, ""), error)
            self.assertEqual(len(error.splitlines()), 1, error)
            self.assertIn("no GPU: cuInit: CUDA_ERROR_NO_DEVICE", error)

    def test_results_through_device_memory(self):
        path = self.folder / "results.json"
        status, out, error = self.run_program(
            "--ranks", "3", "--host-per-rank", "-b", "4", "-e", "1M", "-f", "512", "-n", "5",
            "-J", str(path), RINGPRESS_CODEC="none")
        self.assertEqual(status, 0, out + error)
        self.assertEqual(out.count("device  0 [0000:00:00.0] fake GPU 0"), 3)
        content = json.loads(path.read_text(encoding="utf-8"))
        self.assertIn("NCCL_HOSTID=all_reduce_perf-rank0", content["env"])
        self.assertEqual(len(content["results"]), 3)
        for row in content["results"]:
            self.assertEqual((row["out_of_place"]["nwrong"], row["in_place"]["nwrong"]), (0, 0))
            self.assertEqual(row["ringpress"]["maxerr"], 0)
            # One wait at the end of all calls: one time.
            self.assertEqual(len(row["out_of_place_per_iter"]["times_us"]), 1)

    def test_the_single_times_where_they_are_asked_for(self):
        path = self.folder / "results.json"
        status, out, error = self.run_program("--ranks", "2", "-b", "1M", "-e", "1M", "-n", "5",
                                              "--compare", "none,q4", "-J", str(path),
                                              RINGPRESS_SHM="0", RINGPRESS_EF="0")
        self.assertEqual(status, 0, out + error)
        rows = json.loads(path.read_text(encoding="utf-8"))["results"]
        for row in rows:
            self.assertEqual(len(row["in_place_per_iter"]["times_us"]), 5)
        self.assertEqual(rows[0]["ringpress"]["maxerr"], 0)
        bound = plugin.q4_bound(rows[1], 2, False)
        self.assertLess(0, rows[1]["ringpress"]["maxerr"])
        self.assertLessEqual(rows[1]["ringpress"]["maxerr"], bound)

    def test_out_of_memory(self):
        status, _, error = self.run_program("-b", "1000T", "-e", "1000T")
        self.assertEqual(status, 1)
        self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", error)


class Rehearsal(WithLibraries):
    """The whole command, with a driver and an NCCL that know no GPU."""

    def setUp(self):
        super().setUp()
        subprocess.run([HERE / "pack.sh", BUILD, self.folder / "build"], check=True,
                       stdout=subprocess.DEVNULL, timeout=60)
        program = self.folder / "build" / "perf" / "all_reduce_perf_cuda"
        packed = program.rename(program.with_suffix(".packed"))
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -B '{HERE}/logging_program.py' "
                           f"'{packed}' \"$@\"\n")
        program.chmod(0o755)

    def rehearse(self, **variables):
        script = ("import os, sys, jobs, plugin, run\n"
                  "if os.environ.get('ALL_HANG'):\n"
                  "    whole = jobs.run_words\n"
                  "    jobs.run_words = lambda words, environment, _: whole(words, environment, 1)\n"
                  "plugin.MESSAGE, plugin.MESSAGE_BYTES = '2M', 2 << 20\n"
                  "plugin.RANKS, plugin.LARGEST = (2,), '2M'\n"
                  "sys.exit(run.main(sys.argv[1:]))\n")
        done = subprocess.run(
            [sys.executable, "-B", "-c", script, "plugin", "--build", self.folder / "build",
             "--nccl", self.folder / "nccl" / machine.NCCL, "--results", self.folder,
             "--logs", self.folder / "logs.tar.gz", "--repetitions", "2"],
            capture_output=True, text=True, check=False, timeout=280, cwd=HERE,
            env={**self.environment, "PYTHONPATH": str(HERE), **variables})
        return done.returncode, done.stdout + done.stderr

    def report(self):
        return json.loads((self.folder / "gpu-plugin.json").read_text(encoding="utf-8"))

    def test_without_a_gpu(self):
        status, text = self.rehearse(FAKE_CUDA_DEVICES="0")
        self.assertEqual(status, run.NO_GPU, text)
        self.assertTrue(text.startswith("no GPU: not yet measured"), text)
        self.assertEqual(len(text.splitlines()), 1, text)
        self.assertFalse((self.folder / "gpu-plugin.json").exists())

    def fake_process_sharing(self):
        """A server of MPS that notes what it is asked."""
        (self.folder / "bin").mkdir()
        server = self.folder / "bin" / pacing.SERVER
        server.write_text("#!/bin/sh\n"
                          f"[ \"$1\" = -d ] || set -- \"$(cat)\"\n"
                          f"echo \"$1\" >>{self.folder}/asked\n")
        server.chmod(0o755)
        return f"{self.folder}/bin:{os.environ['PATH']}"

    def test_everything_passes(self):
        status, text = self.rehearse(PATH=self.fake_process_sharing())
        self.assertEqual(status, 0, text)
        report = self.report()
        self.assertEqual(report["result"], "passed")
        self.assertEqual(report["machine"]["gpus"], ["fake GPU 0"])
        self.assertEqual({check["status"] for check in report["checks"]}, {"passed"})
        speeds = [check for check in report["checks"] if check["name"].startswith("speed")]
        self.assertEqual(len(speeds), len(plugin.RATES))
        for check in speeds:
            self.assertEqual(len(check["figures"]["times_us"]["q4"]), 2)
        # The dependencies came along.
        self.assertTrue(list((self.folder / "build/lib/ringpress").glob("libhwy.so*")))
        self.assertIn(report["pacing"], ("root", "user", "software"))
        self.assertTrue(report["mps"])
        self.assertEqual((self.folder / "asked").read_text().split(), ["-d", "quit"])
        with tarfile.open(self.folder / "logs.tar.gz") as archive:
            self.assertIn("logs/plugin/q4-float-2-ranks.log", archive.getnames())

    def test_runs_that_do_not_end_are_given_up(self):
        program = self.folder / "build" / "perf" / "all_reduce_perf_cuda"
        program.write_text("#!/bin/sh\nexec sleep 1000\n")
        status, text = self.rehearse(ALL_HANG="1")
        self.assertEqual(status, 1, text)
        checks = self.report()["checks"]
        self.assertEqual([check["status"] for check in checks[:3]], ["failed", "failed", "skipped"])

    def test_an_nccl_that_does_not_take_collnet_fails(self):
        status, text = self.rehearse(FAKE_ALGORITHM="RING")
        self.assertEqual(status, 1, text)
        failed = {check["name"] for check in self.report()["checks"] if check["status"] == "failed"}
        self.assertIn("q4 float, 2 ranks", failed)
        self.assertIn("speed 1gbit, 2 ranks", failed)
        self.assertNotIn("small float, 2 ranks", failed)


if __name__ == "__main__":
    unittest.main()
