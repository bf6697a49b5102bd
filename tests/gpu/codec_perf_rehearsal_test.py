"""codec_perf_cuda, with kernels that run on fibers of the host and a driver that knows no GPU.

usage: codec_perf_rehearsal_test.py CODEC_PERF_CUDA FIBER_MODULE DRIVER_FOLDER
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest


class Rehearsal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(PROGRAM, self.folder)
        shutil.copy(MODULE, self.folder / "libringpress-cuda.so")

    def run_program(self, *words, **variables):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(DRIVER), **variables}
        return subprocess.run([self.folder / PROGRAM.name, *words], capture_output=True, text=True,
                              check=False, timeout=250, env=environment)

    def test_every_operation_has_a_row(self):
        report = self.folder / "rows.json"
        done = self.run_program("--bytes", "16K", "--reps", "2", "--codec", "q4;qsgd;fp16;lossless",
                                "--json", str(report))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(report.read_text(encoding="utf-8"))["rows"]
        found = {(row["codec"].split(":")[0], row["dtype"], row["operation"]) for row in rows}
        wanted = {(codec, dtype, operation) for codec in ("q4", "qsgd", "fp16")
                  for dtype in ("float32", "bfloat16")
                  for operation in ("encode", "encode_ef", "decode", "hop")}
        self.assertEqual(found, wanted)
        for row in rows:
            self.assertGreater(row["gigabytes_per_second"], 0, row)
            self.assertGreater(row["copy_gigabytes_per_second"], 0, row)
        self.assertIn("# codec lossless has no kernels", done.stdout)

    def test_what_is_missing_is_said(self):
        done = self.run_program("--bytes", "16K", FAKE_CUDA_DEVICES="0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no GPU", done.stderr)
        (self.folder / "libringpress-cuda.so").write_bytes(b"")
        done = self.run_program("--bytes", "16K")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no CUDA kernels", done.stderr)


if __name__ == "__main__":
    DRIVER = pathlib.Path(sys.argv.pop())
    MODULE = pathlib.Path(sys.argv.pop())
    PROGRAM = pathlib.Path(sys.argv.pop())
    unittest.main()
