"""The program that tries kernels on a GPU, with kernels that run on fibers of the host.

usage: kernels_rehearsal_test.py DEVICE_KERNELS FIBER_MODULE
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import kernels


class Rehearsal(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copy(PROGRAM, self.folder)

    def run_program(self, *words):
        done = subprocess.run([self.folder / PROGRAM.name, *words], capture_output=True, text=True,
                              check=False, timeout=250)
        return done.returncode, done.stdout, done.stderr

    def test_every_specification_agrees(self):
        shutil.copy(MODULE, self.folder / "libringpress-cuda.so")
        status, text, error = self.run_program("check", "0", "2500")
        self.assertEqual(status, 0, error)
        wrong, figures = kernels.judge_bytes(json.loads(text))
        self.assertEqual(wrong, [])
        self.assertGreater(figures["specifications"], 40)

    def test_coordinate_scales_alone_agree(self):
        shutil.copy(MODULE, self.folder / "libringpress-cuda.so")
        status, text, error = self.run_program("scales", "1", "2500")
        self.assertEqual(status, 0, error + text)
        self.assertEqual([entry["specification"] for entry in json.loads(text)["specifications"]], ["scales"])

    def test_rates_are_reported(self):
        shutil.copy(MODULE, self.folder / "libringpress-cuda.so")
        status, text, error = self.run_program("bench", "4096")
        self.assertEqual(status, 0, error)
        wrong, figures = kernels.judge_rates(json.loads(text))
        self.assertEqual(wrong, [])
        for row in figures["rates"]:
            self.assertGreater(row["gbytes_per_s"], 0)
        operations = [row.get("operation") for row in figures["rates"] if row["codec"] == "q4"]
        self.assertEqual(operations.count("hop in three"), 1)

    def test_what_is_missing_is_said(self):
        self.assertEqual(self.run_program("chekc")[0], 2)
        (self.folder / "libringpress-cuda.so").write_bytes(b"")
        status, text, error = self.run_program("check", "0")
        self.assertEqual((status, text), (3, ""))
        self.assertIn("libringpress-cuda.so", error)

    def test_kernels_of_another_build_are_not_called(self):
        """They are not built by default, so that they may be older than the rest."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        self.assertIsNotNone(compiler, "no C compiler, though this was built with one")
        source = self.folder / "older.c"
        entry = "void ringpress_cuda_open(void) { __builtin_trap(); }\n"
        for layout in ("", "unsigned long ringpress_cuda_layout(void) { return 1; }\n"):
            source.write_text(entry + layout)
            subprocess.run([compiler, "-shared", "-fPIC", "-o", self.folder / "libringpress-cuda.so",
                            source], check=True)
            status, text, error = self.run_program("check", "0")
            self.assertEqual((status, text), (3, ""))
            self.assertIn("no CUDA kernels: libringpress-cuda.so is of another build", error)


if __name__ == "__main__":
    MODULE = pathlib.Path(sys.argv.pop())
    PROGRAM = pathlib.Path(sys.argv.pop())
    unittest.main()
