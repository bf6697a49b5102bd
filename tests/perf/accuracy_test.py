#!/usr/bin/env python3
"""codec_accuracy and what perf/accuracy.py makes of it.

usage: accuracy_test.py PERF_FOLDER CODEC_ACCURACY
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = sys.argv.pop()
PERF = pathlib.Path(sys.argv.pop())
sys.path.insert(0, str(PERF))
import accuracy  # noqa: E402  (needs the path)


def run(*arguments):
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


class Accuracy(unittest.TestCase):
    def rows(self):
        code, text, _ = run("--codecs", "none", "q4:grid=lloyd", "q4:grid=uniform", "--count", "65536",
                            "--all-reduce-count", "8192", "--ranks", "2", "4", "--steps", "20")
        self.assertEqual(code, 0)
        return [json.loads(line) for line in text.splitlines()]

    def test_errors_are_those_that_the_theory_gives(self):
        for row in self.rows():
            if row["codec"] == "none":
                self.assertLess(row["error"], 1e-12)
            elif row["mode"] == "single" and "lloyd" in row["codec"]:
                self.assertTrue(0.0088 < row["error"] < 0.0101, row)
                self.assertTrue(4.01 < row["bits"] < 4.02, row)
            elif row["mode"] == "all_reduce" and row["error_feedback"]:
                self.assertLess(row["error"], 0.004, row)
            elif row["mode"] == "all_reduce":
                self.assertTrue(0.008 < row["error"] < 0.2, row)

    def test_the_table_of_the_codecs_has_a_row_for_each_codec(self):
        described = [json.loads(line)["codec"] for line in run("--describe")[1].splitlines()]
        page = (PERF.parent / "compress_kernels" / "codecs.md").read_text(encoding="utf-8")
        table = page.partition("<!-- codecs -->")[2].partition("<!-- /codecs -->")[0]
        self.assertEqual(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE), described)
        for name in run("--list")[1].split():
            rows = [row for row in described if row.partition(":")[0] == name]
            self.assertTrue(name in rows or (rows and not accuracy.is_quantiser(name)), name)

    def test_every_codec_can_be_measured(self):
        code, text, error = run("--count", "8192", "--all-reduce-count", "4096", "--ranks", "2",
                                "--steps", "2")
        self.assertEqual(code, 0, error)
        rows = [json.loads(line) for line in text.splitlines()]
        names = run("--list")[1].split()
        for mode in ("single", "all_reduce"):
            measured = {row["codec"] for row in rows if row["mode"] == mode}
            self.assertEqual(measured, set(names))
        self.assertTrue(all(row["error"] < 10 for row in rows))

    def test_every_codec_says_when_to_use_it(self):
        rows = accuracy.described(PROGRAM)
        named = {row["codec"].partition(":")[0].rstrip("12345678") for row in rows}
        code, text, _ = run("--list")
        self.assertEqual(code, 0)
        self.assertEqual(named, {name.rstrip("12345678") for name in text.split()})
        for row in rows:
            self.assertTrue(row["when_to_use"] and row["error_feedback"] and row["memory"], row)

    def test_a_wrong_codec_is_refused_by_name(self):
        code, _, error = run("--codecs", "q9")
        self.assertEqual(code, 1)
        self.assertIn("maybe q8", error)
        code, text, _ = run("--list")
        self.assertEqual(code, 0)
        self.assertIn("sign", text.split())


if __name__ == "__main__":
    unittest.main()
