#!/usr/bin/env python3
"""The options of `ringpress run`: doors, settings and the report.

usage: run_options_test.py RINGPRESS LIBRARY_FOLDER   (that of libnccl-net-ringpress.so)
"""
import ctypes.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

LIBRARY_FOLDER = pathlib.Path(sys.argv.pop()).resolve()
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()

# A communicator of one rank, by the libnccl.so.2 that the loader finds.
COMMUNICATOR = """
import ctypes
nccl = ctypes.CDLL("libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
unique, comm = Id(), ctypes.c_void_p()
assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
assert nccl.ncclCommInitRank(ctypes.byref(comm), 1, unique, 0) == 0
assert nccl.ncclCommDestroy(comm) == 0
"""


class RunOptions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("NCCL_", "RINGPRESS", "LD_LIBRARY_PATH", "LD_PRELOAD",
                                                    "VIRTUAL_ENV", "CONDA_PREFIX"))}
        self.environment["HOME"] = str(self.folder)

    def run_words(self, *words, **variables):
        done = subprocess.run([PROGRAM, "run", *map(str, words)], capture_output=True, text=True, check=False,
                              env={**self.environment, **variables}, timeout=100)
        return done.returncode, done.stdout, done.stderr

    def child(self, *options, **variables):
        """What the program that is started has in its environment, and what was said."""
        code, out, error = self.run_words(*options, "--", "env", **variables)
        self.assertEqual(code, 0, error)
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line), error

    def refused(self, *options, **variables):
        code, out, error = self.run_words(*options, "--", "touch", self.folder / "started", **variables)
        self.assertEqual((code, out), (2, ""), error)
        self.assertTrue(error.startswith("ringpress: run: "), error)
        self.assertFalse((self.folder / "started").exists())
        return error


class Doors(RunOptions):
    def test_door_b_is_the_usual_one(self):
        for options in ((), ("--door", "B"), ("--door=b",)):
            child, _ = self.child(*options)
            self.assertEqual(child["NCCL_NET_PLUGIN"], "ringpress")
            self.assertNotIn("LD_PRELOAD", child)

    def test_door_a_preloads_what_reaches_the_program(self):
        child, error = self.child("--door", "A")
        # `env` is not linked with NCCL: it, or what it starts, may open one by its name.
        library = pathlib.Path(child["LD_PRELOAD"])
        self.assertEqual(library.name, "libnccl.so.2")
        self.assertTrue(library.samefile(LIBRARY_FOLDER / "preload" / "libnccl.so.2"))
        self.assertIn(f"sets LD_PRELOAD={library}\n", error)
        self.assertNotIn("NCCL_NET_PLUGIN", child)

    def test_what_is_preloaded_already_stays(self):
        libc = ctypes.util.find_library("c")
        child, _ = self.child("--door", "A", LD_PRELOAD=libc)
        self.assertTrue(child["LD_PRELOAD"].endswith(f"preload/libnccl.so.2:{libc}"), child["LD_PRELOAD"])
        own = str(LIBRARY_FOLDER / "libringpress-preload.so")
        child, error = self.child("--door", "A", LD_PRELOAD=own)
        self.assertEqual(child["LD_PRELOAD"], own)
        self.assertIn(f"keeps LD_PRELOAD={own}", error)

    def test_door_c_is_found_first(self):
        child, error = self.child("--door", "C", LD_LIBRARY_PATH="/some/where")
        folder, rest = child["LD_LIBRARY_PATH"].split(":", 1)
        self.assertTrue((pathlib.Path(folder) / "libnccl.so.2").samefile(LIBRARY_FOLDER / "libringpress.so"))
        self.assertEqual(rest, "/some/where")
        self.assertIn(f"sets LD_LIBRARY_PATH={folder}:/some/where\n", error)
        self.assertNotIn("NCCL_NET_PLUGIN", child)

    def test_a_program_runs_through_door_c(self):
        code, _, error = self.run_words("--door", "C", "--", sys.executable, "-c", COMMUNICATOR)
        self.assertEqual(code, 0, error)

    def test_auto_says_which_door_and_why(self):
        _, error = self.child("--door", "auto")
        self.assertRegex(error, r"ringpress run: takes door [ABC]: ")
        if ctypes.util.find_library("cuda") is None:
            self.assertIn("takes door C: there is no GPU driver (libcuda.so.1)\n", error)

    def test_there_are_three_doors(self):
        self.assertIn("--door D: there are A, B, C and auto", self.refused("--door", "D"))

    def test_a_folder_without_the_library(self):
        for door in "ABC":
            code, _, error = self.run_words("--door", door, "--library", self.folder, "--", "true")
            self.assertEqual(code, 125, error)
            self.assertIn(f"in {self.folder}; --library FOLDER says where it is", error)

    def test_a_folder_of_the_tree_is_enough(self):
        for folder in (LIBRARY_FOLDER, LIBRARY_FOLDER / "ringpress"):
            for door in "ABC":
                _, error = self.child("--door", door, "--library", folder)
                self.assertIn("sets LD_", error)


class Settings(RunOptions):
    def test_each_option_sets_its_variable(self):
        for options, name, value in ((("--codec", "q4:block=64"), "RINGPRESS_CODEC", "q4:block=64"),
                                     (("--codec", "auto"), "RINGPRESS_CODEC", "auto"),
                                     (("--budget", "q8"), "RINGPRESS_BUDGET", "q8"),
                                     (("--budget=error=0.05",), "RINGPRESS_BUDGET", "error=0.05"),
                                     (("--off",), "RINGPRESS", "off"),
                                     (("--lossless",), "RINGPRESS", "lossless"),
                                     (("--encrypt",), "RINGPRESS_ENCRYPT", "on")):
            for door in "BC":
                child, error = self.child("--door", door, *options)
                self.assertEqual(child[name], value)
                self.assertIn(f"ringpress run: sets {name}={value}\n", error)
                self.assertNotIn("warning", error)
                # The same again, or nothing, is no conflict.
                for own in (value, ""):
                    self.assertEqual(self.child("--door", door, *options, **{name: own})[0][name], value)

    def test_a_codec_that_is_none(self):
        self.assertRegex(self.refused("--codec", "q44"), r'--codec q44: unknown codec "q44" \(maybe q4\?\)')
        self.assertIn("maybe block?", self.refused("--codec", "q4:blok=3"))
        self.assertIn("--budget error=-1: expected a codec, or error=", self.refused("--budget", "error=-1"))
        self.assertIn("--budget ", self.refused("--budget", "q44"))

    def test_options_that_exclude_each_other(self):
        for options in (("--off", "--lossless"), ("--off", "--codec", "q4"), ("--off", "--budget", "q8"),
                        ("--lossless", "--codec", "q4"), ("--lossless", "--budget", "q8")):
            self.assertIn("exclude each other", self.refused(*options))
        self.assertIn("--budget q8: with --codec q4", self.refused("--codec", "q4", "--budget", "q8"))
        self.child("--codec", "auto", "--budget", "q8")

    def test_variables_that_say_something_else(self):
        for options, name, value in ((("--codec", "q8"), "RINGPRESS_CODEC", "q4"),
                                     (("--budget", "q8"), "RINGPRESS_BUDGET", "q4"),
                                     (("--off",), "RINGPRESS", "on"),
                                     (("--lossless",), "RINGPRESS", "observe"),
                                     (("--encrypt",), "RINGPRESS_ENCRYPT", "off")):
            error = self.refused(*options, **{name: value})
            self.assertIn(" ".join(options) + ": ", error)
            self.assertIn(f"{name}={value} (environment) is set already", error)
        (self.folder / ".nccl.conf").write_text("RINGPRESS_CODEC=q4\n")
        self.assertIn(f"RINGPRESS_CODEC=q4 ({self.folder}/.nccl.conf)", self.refused("--codec", "q8"))

    def test_variables_that_take_the_effect_away(self):
        for mode in ("off", "lossless"):
            for option, value in (("--codec", "q8"), ("--budget", "q8")):
                self.assertIn(f"{option} {value} has no effect with RINGPRESS={mode} (environment)",
                              self.refused(option, value, RINGPRESS=mode))
        self.assertIn("--budget q8 has no effect with RINGPRESS_CODEC=q4",
                      self.refused("--budget", "q8", RINGPRESS_CODEC="q4"))
        self.child("--codec", "q8", RINGPRESS="observe")

    def test_variables_without_effect_are_named(self):
        _, error = self.child("--off", RINGPRESS_CODEC="q4")
        self.assertIn("RINGPRESS_CODEC=q4 (environment) has no effect with --off\n", error)
        _, error = self.child("--codec", "q4", RINGPRESS_BUDGET="q8")
        self.assertIn("RINGPRESS_BUDGET=q8 (environment) has no effect with --codec\n", error)

    def test_nothing_is_encrypted_at_door_a(self):
        self.assertIn("--encrypt: at door A it is NCCL that sends", self.refused("--door", "A", "--encrypt"))

    def test_options_end_where_the_command_begins(self):
        code, out, error = self.run_words("--door", "C", "--codec", "q4", "echo", "--off")
        self.assertEqual((code, out), (0, "--off\n"), error)


class Report(RunOptions):
    def run_report(self, *command, **variables):
        return self.run_words("--door", "C", "--report", self.folder / "a/report", "--", *command, **variables)

    def test_says_where_the_files_are(self):
        code, out, error = self.run_report(sys.executable, "-c", COMMUNICATOR)
        self.assertEqual((code, out), (0, ""), error)
        self.assertNotIn("warning", error)
        folder = self.folder / "a/report"
        files = [path for path in folder.iterdir() if path.name.startswith("statistics-")]
        self.assertEqual([path.name for path in files], [f"statistics-{os.uname().nodename}.jsonl"])
        self.assertEqual(json.loads(files[0].read_text().splitlines()[0])["ranks"], 1)
        said = error.splitlines()
        self.assertIn(f"ringpress run: report: {files[0]}", said)
        self.assertEqual(said[-1], f"ringpress run: report: `ringpress report {folder}` makes a page of them")
        self.assertTrue(any(line.startswith(f"ringpress run: sets RINGPRESS_STATS={folder}/") for line in said))
        self.assertTrue(any(line.startswith(f"ringpress run: sets RINGPRESS_TUNING_LOG={folder}/") for line in said))

    def test_a_program_that_writes_none(self):
        code, _, error = self.run_report("true")
        self.assertEqual(code, 0)
        self.assertIn("a/report has no file: ", error)
        self.assertNotIn("makes a page", error)

    def test_the_status_is_that_of_the_program(self):
        self.assertEqual(self.run_report("sh", "-c", "exit 7")[0], 7)
        self.assertEqual(self.run_report("sh", "-c", "kill -9 $$")[0], -9)
        self.assertEqual(self.run_report("no-such-command")[0], 127)
        self.assertEqual(self.run_report("/etc/passwd")[0], 126)

    def test_signals_go_on_to_the_program(self):
        ready = self.folder / "ready"
        script = f"trap 'exit 5' TERM; touch {ready}; while :; do sleep 0.1; done"
        with subprocess.Popen([PROGRAM, "run", "--door", "C", "--report", self.folder / "r", "--", "sh", "-c", script],
                              stderr=subprocess.PIPE, env=self.environment) as started:
            while not ready.exists() and started.poll() is None:
                time.sleep(0.01)
            started.send_signal(signal.SIGTERM)
            started.communicate(timeout=100)
        self.assertEqual(started.returncode, 5)

    def test_a_folder_that_cannot_be(self):
        (self.folder / "a").write_text("")
        code, _, error = self.run_report("touch", self.folder / "started")
        self.assertEqual(code, 2)
        self.assertIn(f"--report {self.folder}/a/report: ", error)
        self.assertFalse((self.folder / "started").exists())

    def test_other_files_are_a_conflict(self):
        code, _, error = self.run_report("true", RINGPRESS_STATS="/other")
        self.assertEqual(code, 2)
        self.assertIn("RINGPRESS_STATS=/other (environment) is set already", error)

    def test_a_dry_run_makes_no_folder(self):
        code, _, error = self.run_words("--door", "C", "--report", self.folder / "r", "--dry-run")
        self.assertEqual(code, 0, error)
        self.assertIn("sets RINGPRESS_STATS=", error)
        self.assertNotIn("warning", error)
        self.assertFalse((self.folder / "r").exists())


if __name__ == "__main__":
    unittest.main()
