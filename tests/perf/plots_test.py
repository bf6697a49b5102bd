#!/usr/bin/env python3
"""Pictures of measurements: all lines are there, each with a style of its own; foreign files are refused.

usage: plots_test.py PERF_FOLDER ALL_REDUCE_PERF
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

PROGRAM = sys.argv.pop()
PERF = pathlib.Path(sys.argv.pop())
RESULTS = PERF / "results"


def python_with_matplotlib():
    """Debian's package is for Debian's Python, which may not be the one that builds use."""
    for program in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([program, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
            return program
    sys.exit("no Python here has Matplotlib: apt-get install python3-matplotlib")


PYTHON = python_with_matplotlib()


class Plots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.picture = self.folder / "picture.svg"

    def draw(self, *arguments):
        done = subprocess.run([PYTHON, "-B", str(PERF / "plots" / "main.py"), *map(str, arguments), "-o",
                               str(self.picture)], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def texts(self, *arguments):
        """What stands in the picture."""
        code, error = self.draw(*arguments)
        self.assertEqual(code, 0, error)
        root = xml.etree.ElementTree.parse(self.picture).getroot()
        return ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]

    def test_errors_have_a_panel_for_each_law_and_a_line_for_each_codec(self):
        texts = self.texts("error")
        for text in ("normal distribution", "gradients of a transformer", "qB:grid=lloyd", "topk", "bits of a value"):
            self.assertIn(text, texts)

    def test_the_committed_pictures_are_those_of_the_committed_files(self):
        for words in (["error"], ["loss", *(RESULTS / f"fidelity-{form}.json" for form in ("long", "scales", "tasks", "warmup"))],
                      ["ranks", RESULTS / "ranks.json"]):
            name = {"error": "accuracy.svg", "loss": "loss.svg", "ranks": "ranks.svg"}[words[0]]
            committed = xml.etree.ElementTree.parse(RESULTS / name).getroot()
            wanted = ["".join(element.itertext()) for element in committed.iter("{http://www.w3.org/2000/svg}text")]
            self.assertEqual(self.texts(*words), wanted, name)

    def test_speed_ups_are_of_the_settings_that_were_compared(self):
        report = self.folder / "run.json"
        subprocess.run([PROGRAM, "--ranks", "2", "-b", "64K", "-e", "256K", "-f", "2", "-n", "5", "-c", "0", "--placement",
                        "in-place", "--compare", "none,q8,q4", "-J", str(report)], check=True, stdout=subprocess.DEVNULL)
        texts = self.texts("speed-up", report)
        for text in ("none", "q8", "q4", "64 KiB", "256 KiB", "times as quick as none"):
            self.assertIn(text, texts)

    def test_measured_and_modelled_times_are_marked(self):
        rows = [{"setting": setting, "ranks": ranks, "milliseconds": 1.5 * ranks, "is_measured": ranks < 4}
                for setting in ("none", "q4") for ranks in (2, 4, 8)]
        report = self.folder / "ranks.json"
        report.write_text(json.dumps({"title": "A call", "rows": rows}), encoding="utf-8")
        texts = self.texts("ranks", report)
        for text in ("none, measured", "none, model", "q4, measured", "q4, model", "A call"):
            self.assertIn(text, texts)

    def test_lines_that_coincide_differ_in_width_and_dashes(self):
        rows = [{"setting": setting, "ranks": ranks, "milliseconds": ranks, "is_measured": False}
                for setting in ("none", "q8", "q4") for ranks in (2, 4)]
        report = self.folder / "ranks.json"
        report.write_text(json.dumps({"title": "A call", "rows": rows}), encoding="utf-8")
        self.texts("ranks", report)
        styles = re.findall(r'style="fill: none;([^"]*stroke-width: [^"]*)"', self.picture.read_text(encoding="utf-8"))
        styles += re.findall(r'style="fill: none; ([^"]*)"', self.picture.read_text(encoding="utf-8"))
        widths = {found for style in styles for found in re.findall(r"stroke-width: ([\d.]+)", style)}
        self.assertGreaterEqual(len(widths & {"3.6", "2.4", "1.2"}), 3, styles)

    def test_foreign_files_are_refused_by_name(self):
        foreign = self.folder / "foreign.json"
        for text in ("{}", "no JSON", '{"rows": [{"a": 1}]}'):
            foreign.write_text(text, encoding="utf-8")
            for picture in ("speed-up", "error", "loss", "ranks"):
                code, error = self.draw(picture, foreign)
                self.assertNotEqual(code, 0)
                self.assertIn(str(foreign), error)
                self.assertNotIn("Traceback", error)
        code, error = self.draw("ranks", self.folder / "missing.json")
        self.assertNotEqual(code, 0)
        self.assertIn("missing.json", error)


if __name__ == "__main__":
    unittest.main()
