#!/usr/bin/env python3
"""`ringpress report` as people run it: the page and the summary, of good files and of bad ones.

usage: report_test.py RINGPRESS PERF_FOLDER
"""
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from job_files import lines_of, live_line, live_lines, statistics_line

PERF = pathlib.Path(sys.argv.pop()).resolve()
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
SAMPLES = sorted(path for path in (PERF / "report" / "samples").iterdir() if path.suffix != ".md")
MOST_BYTES = 500000
VOID = {"meta", "br", "link", "img", "hr", "input"}
TUNING = ("collective,dtype,min_bytes,max_bytes,event,codec,algorithm,chunk_bytes,calls,typical_us,predicted_us\n"
          'all_reduce,float32,1048576,2097151,tried,"q4:block=64,round=nearest",sra,0,10,353.5,390.1\n'
          'all_reduce,float32,1048576,2097151,tried,"none",sra,0,10,762.0,700.0\n'
          'all_reduce,float32,1048576,2097151,settled,"q4:block=64,round=nearest",sra,131072,0,353.5,390.1\n')


class Page(html.parser.HTMLParser):
    """What the tests ask of a page; a tag that does not close, or an attribute that loads something, is an error."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.links, self.headings, self.words = [], [], [], [], [], []
        self.unlabelled, self.bare_heads = [], 0
        self.feed(text)
        self.close()
        if self.open:
            raise AssertionError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID and not self.get_starttag_text().endswith("/>"):
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "a":
            self.links.append(values["href"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "svg" and values.get("aria-hidden") != "true" and not values.get("aria-label"):
            self.unlabelled.append(self.get_starttag_text())
        if tag == "th" and "scope" not in values:
            self.bare_heads += 1
        for name in values:
            if name in ("src", "srcset", "data", "action") or name.startswith("on"):
                raise AssertionError(f"the page loads or runs something: {self.get_starttag_text()}")

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            if self.get_starttag_text().endswith("/>"):
                return
            raise AssertionError(f"</{tag}> where {self.open[-1:]} is open")
        self.open.pop()

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_data(self, data):
        self.words.append(data)

    def text(self):
        return re.sub(r"\s+", " ", "".join(self.words))


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, text):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def run_report(self, *words):
        done = subprocess.run([PROGRAM, "report", *map(str, words)], capture_output=True, text=True, check=False,
                              cwd=self.folder, timeout=600)
        return done.returncode, done.stdout, done.stderr

    def page(self, *files):
        """The page of these files, which is checked for what all pages promise."""
        code, _, error = self.run_report(*files, "-o", "page.html")
        self.assertEqual((code, error), (0, ""))
        text = (self.folder / "page.html").read_text(encoding="utf-8")
        self.assertLessEqual(len(text.encode()), MOST_BYTES)
        self.assertNotRegex(text, r"(?i)<script|javascript:|@import|url\(|https?://")
        page = Page(text)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        for link in page.links:
            self.assertIn(link.removeprefix("#"), page.ids)
        self.assertEqual(page.headings[0], 1)
        for above, heading in zip(page.headings, page.headings[1:]):
            self.assertLessEqual(heading, above + 1)
        self.assertEqual(page.unlabelled, [])
        self.assertEqual(page.bare_heads, 0)
        return page

    def summary(self, *files):
        code, output, error = self.run_report(*files, "--json", "--text")
        self.assertEqual((code, error), (0, ""))
        return json.loads(output)

    def statistics(self, ranks=4, **changes):
        return self.write("stats.json", lines_of(statistics_line(rank, ranks, **changes) for rank in range(ranks)))


class GoodFiles(Report):
    def test_lines_of_statistics(self):
        path = self.statistics()
        summary = self.summary(path)
        self.assertEqual(summary["headline"], "4 ranks. 400 of the 560 calls that can be compressed were; all "
                         "calls together sent 7 times fewer bytes. Gradients lost something (q4).")
        self.assertEqual(summary["total"]["raw_bytes"], 4 * 84000000)
        self.assertEqual(summary["warnings"], [])
        self.assertEqual([entry["calls"] for entry in summary["exact_calls"]], [136, 24])
        text = self.page(path).text()
        self.assertIn(summary["headline"], text)
        self.assertIn("Small calls wait for latency", text)

    def test_live_lines(self):
        path = self.write("live", lines_of(live_lines(4, 30)))
        summary = self.summary(path)
        self.assertEqual(summary["headline"], "4 ranks on 2 hosts. Of the bytes more than 99 % were compressed, 8 times "
                         "smaller. Gradients lost something (q4). Rank 0 waited most (60 s), rank 3 least (12 s).")
        self.assertEqual(summary["total"]["calls"], 4 * 50 * 30)
        self.assertEqual([entry["setting"] for entry in summary["suggestions"]], ["a slow rank", "RINGPRESS_BUDGET"])
        self.assertIn("Rank 3", summary["suggestions"][0]["text"])
        text = self.page(path).text()
        for title in ("Bytes over time", "Time in calls over time", "Relative error of sums over time"):
            self.assertIn(title, text)

    def test_a_communicator_with_both_kinds_of_lines_counts_once(self):
        last = live_line(0, 2, 30)["total"]
        both = [statistics_line(rank, 2, calls=last["calls"], compressed_calls=last["compressed_calls"],
                                raw_bytes=last["raw_bytes"], wire_bytes=last["wire_bytes"]) for rank in range(2)]
        summary = self.summary(self.write("live", lines_of(live_lines(2, 30))), self.write("stats", lines_of(both)))
        self.assertEqual(summary["total"]["calls"], 2 * last["calls"])
        self.assertEqual(summary["processes"][0]["call_seconds"], 3)
        self.assertEqual(summary["processes"][0]["host"], "host0")

    def test_a_folder_stands_for_its_files_and_a_file_counts_once(self):
        path = self.statistics()
        self.assertEqual(self.summary(self.folder, path)["total"]["calls"], 560)

    def test_a_tuning_log(self):
        text = self.page(self.write("log", TUNING)).text()
        self.assertIn("q4:block=64,round=nearest by sra", text)
        self.assertIn("354 us", text)
        self.assertEqual(self.summary(self.write("log", TUNING))["tuning_lines"], 3)

    def test_what_real_programs_have_left(self):
        self.assertGreaterEqual(len(SAMPLES), 3)
        summary = self.summary(*SAMPLES)
        self.assertEqual([file["problems"] for file in summary["files"]], [[]] * len(SAMPLES))
        self.assertEqual(summary["ranks"], 2)
        self.assertGreater(summary["tuning_lines"], 0)
        self.assertEqual(summary["steps"], 1)
        self.page(*SAMPLES)

    def test_results_of_trainings_and_of_the_demo(self):
        page = self.page(PERF / "results" / "fidelity-tasks.json")
        self.assertIn("Loss against bytes", page.text())

    def test_a_hundred_thousand_live_lines(self):
        with open(self.folder / "live", "w", encoding="utf-8") as file:
            for number in range(1, 25001):
                file.write(lines_of(live_line(rank, 4, number) for rank in range(4)))
        text = self.page(self.folder / "live").text()
        self.assertIn("100000 live lines", text)


class Names(Report):
    def test_a_name_with_a_tag_is_text(self):
        name = "<script>alert('x')</script>\"><img src=x>"
        lines = [live_line(0, 1, number, comm=name) for number in (1, 2)]
        reasons = {"<script>alert(1)</script>": 3}
        page = self.page(self.write("live", lines_of(lines)),
                         self.write("stats", lines_of([statistics_line(0, 1, exact_calls=reasons, last_codec=name)])))
        self.assertNotIn("script", page.tags)
        self.assertNotIn("img", page.tags)
        self.assertIn(name, page.text())

    def test_a_file_name_with_a_tag_is_text(self):
        page = self.page(self.write("<script>.json", lines_of([statistics_line(0, 1)])))
        self.assertNotIn("script", page.tags)

    def test_control_characters_do_not_reach_the_terminal(self):
        path = self.statistics(1, exact_calls={"\x1b[2J gone": 40})
        code, output, _ = self.run_report(path, "--text")
        self.assertEqual(code, 0)
        self.assertNotIn("\x1b", output)
        self.assertIn("[2J gone", output)


class BadFiles(Report):
    def problems(self, text, *more):
        summary = self.summary(self.write("bad", text), self.statistics(), *more)
        self.assertEqual(summary["total"]["calls"] % 140, 0)
        problems = summary["files"][0]["problems"]
        self.page(self.folder / "bad", self.folder / "stats.json")
        return problems

    def test_a_line_that_is_cut_off(self):
        lines = lines_of(statistics_line(rank, 4) for rank in range(3))
        self.assertEqual(self.problems(lines[:-50]), ["line 3: cut off"])

    def test_a_line_in_the_middle_that_is_damaged(self):
        lines = lines_of(statistics_line(rank, 4) for rank in range(3)).split("\n")
        lines[1] = lines[1][:80]
        self.assertEqual(self.problems("\n".join(lines)), ["line 2: damaged: it is no JSON"])

    def test_lines_of_something_else(self):
        lines = lines_of([statistics_line(0, 4), {"loss": 3.5}, statistics_line(9, 4)])
        self.assertEqual(self.problems(lines), ["line 2: no line of RINGPRESS_STATS, nor a live line",
                                                "line 3: rank 9 of 4 is no rank"])

    def test_a_live_line_of_another_version(self):
        line = {**live_line(0, 4, 1), "version": 2}
        self.assertEqual(self.problems(lines_of([line])),
                         ["line 1: a live line of version 2; this program knows version 1"])

    def test_a_tuning_log_that_is_cut_off(self):
        self.assertEqual(self.problems(TUNING[:-40]), ["line 4: cut off: a quote is not closed"])
        self.assertEqual(self.problems(TUNING.replace("353.5", "long", 1)),
                         ['line 2: typical_us is "long", which is no number from 0 on'])

    def test_a_job_file_that_is_cut_off(self):
        text = (PERF / "jobs" / "gpt2.json").read_text(encoding="utf-8")
        [problem] = self.problems(text[:500])
        self.assertRegex(problem, r"^JSON that is cut off or damaged \(\d+ lines\)$")

    def test_foreign_files(self):
        self.assertEqual(self.problems("#!/bin/sh\necho hello\n"), ["no file of ringpress: nothing in it is known"])
        self.assertEqual(self.problems('{"a": [1, 2]}\n'), ["no file of ringpress: JSON that has nothing of a report"])
        self.assertEqual(self.problems(""), ["it is empty"])

    def test_values_of_other_kinds(self):
        line = statistics_line(0, 4)
        for name in line:
            for value in (None, -1, 1e300, "text", [], {}, [[1]], {"a": {"b": 1}}):
                path = self.write("odd", lines_of([{**line, name: value}, line]))
                code, _, error = self.run_report(path, "--text")
                self.assertEqual((code, error), (0, ""), (name, value))

    def test_numbers_that_are_none(self):
        line = lines_of([statistics_line(0, 1)]).replace('"last": 0.21', '"last": -nan').replace(
            '"unsent_norm": 0', '"unsent_norm": inf')
        self.assertIn("-nan", line)
        self.assertEqual(self.summary(self.write("stats", line))["files"][0]["problems"], [])


class Runs(Report):
    def test_ranks_that_are_missing_are_told(self):
        path = self.write("stats", lines_of(statistics_line(rank, 4) for rank in (0, 1, 3)))
        [warning] = self.summary(path)["warnings"]
        self.assertTrue(warning.startswith("3 of 4 ranks have a line; there is none of rank 2."), warning)

    def test_two_runs_are_told(self):
        lines = [statistics_line(rank, 2, pid=pid + rank) for pid in (100, 200) for rank in range(2)]
        [warning] = self.summary(self.write("stats", lines_of(lines)))["warnings"]
        self.assertTrue(warning.startswith("These are files of several runs: rank 0 of 2 has lines of 2 processes."))

    def test_runs_of_different_numbers_of_ranks_are_told(self):
        lines = [*(statistics_line(rank, 4) for rank in range(4)),
                 *(statistics_line(rank, 2, pid=50 + rank) for rank in range(2))]
        [warning] = self.summary(self.write("stats", lines_of(lines)))["warnings"]
        self.assertTrue(warning.startswith("2 processes are in no communicator of 4 ranks"), warning)

    def test_groups_of_one_run_are_no_mixture(self):
        lines = [*(statistics_line(rank, 4) for rank in range(4)),
                 *(statistics_line(rank % 2, 2, pid=1000 + rank) for rank in range(4))]
        self.assertEqual(self.summary(self.write("stats", lines_of(lines)))["warnings"], [])

    def test_equal_process_numbers_on_all_hosts(self):
        summary = self.summary(self.write("stats", lines_of(statistics_line(rank, 4, pid=7) for rank in range(4))))
        self.assertEqual((summary["seen_ranks"], summary["warnings"]), (4, []))

    def test_ranks_of_one_process(self):
        live = [{**line, "pid": 7, "host": "host0"} for line in live_lines(4, 3)]
        groups = [{**line, "pid": 7, "host": "host0", "comm": f"tp{pair}"} for pair in range(2)
                  for line in live_lines(2, 3)]
        summary = self.summary(self.write("live", lines_of(live + groups)))
        self.assertEqual((summary["seen_ranks"], summary["warnings"]), (4, []))
        self.assertEqual([process["rank"] for process in summary["processes"]], [0, 1, 2, 3])

    def test_a_rank_without_its_last_line_is_told(self):
        lines = [line for line in live_lines(2, 5) if not (line["final"] and line["rank"] == 1)]
        [warning] = self.summary(self.write("live", lines_of(lines)))["warnings"]
        self.assertTrue(warning.startswith("Rank 1 had not ended"), warning)


class Suggestions(Report):
    def settings(self, **changes):
        return [entry["setting"] for entry in self.summary(self.statistics(**changes))["suggestions"]]

    def test_reasons_lead_to_settings(self):
        for reason, setting in (("smaller than RINGPRESS_MIN_BYTES", "RINGPRESS_MIN_BYTES"),
                                ("all ranks share one host", "nothing to gain"),
                                ("no codec within the budget made it quicker", "RINGPRESS_BUDGET"),
                                ("line 3 of RINGPRESS_RULES", "RINGPRESS_RULES"),
                                ("RINGPRESS=observe: would be q4", "RINGPRESS")):
            self.assertEqual(self.settings(exact_calls={reason: 100}), [setting])
            self.assertEqual(self.settings(exact_calls={reason: 10}), [])

    def test_errors_lead_to_the_budget(self):
        error = {"count": 5000, "type": "float32", "looks": 3, "last": 1, "mean": 0.9, "worst": 1, "more_bits": 0}
        self.assertEqual(self.settings(exact_calls={}, errors=[error]), ["RINGPRESS_BUDGET"])
        self.assertEqual(self.settings(exact_calls={}, errors=[{**error, "mean": 0.2}]), [])

    def test_who_has_eight_bits_is_not_told_to_take_eight(self):
        error = {"count": 5000, "type": "float32", "looks": 3, "last": 1, "mean": 0.9, "worst": 1, "more_bits": 0}
        for codec, advice in (("q4", "RINGPRESS_BUDGET=q8 loses less"), ("q8", "RINGPRESS=lossless loses nothing")):
            statistics = self.statistics(exact_calls={}, errors=[error], last_codec=codec)
            [suggestion] = self.summary(statistics)["suggestions"]
            self.assertIn(advice, suggestion["text"])

    def test_a_rank_that_comes_late_is_named(self):
        lines = [statistics_line(rank, 3, exact_calls={}, nanoseconds=10**9 * (2 if rank == 1 else 9))
                 for rank in range(3)]
        [suggestion] = self.summary(self.write("stats", lines_of(lines)))["suggestions"]
        self.assertEqual(suggestion["setting"], "a slow rank")
        self.assertTrue(suggestion["text"].startswith("Rank 1 comes late"), suggestion)


class CommandLine(Report):
    def test_the_page_has_a_name_by_default(self):
        code, output, _ = self.run_report(self.statistics())
        self.assertEqual(code, 0)
        self.assertIn("Page: ringpress-report.html", output)
        self.assertTrue((self.folder / "ringpress-report.html").is_file())

    def test_text_writes_no_page(self):
        self.assertEqual(self.run_report(self.statistics(), "--text")[0], 0)
        self.assertFalse((self.folder / "ringpress-report.html").exists())

    def test_nothing_to_read_is_an_error(self):
        for path in ("no-such-file", self.write("foreign", "hello\n"), self.folder / "foreign"):
            code, output, error = self.run_report(path)
            self.assertEqual((code, output), (1, ""))
            self.assertRegex(error, r"^ringpress report: nothing could be read; .*(no-such-file|foreign): .+\n$")
        self.assertFalse((self.folder / "ringpress-report.html").exists())

    def test_a_page_that_cannot_be_written_is_an_error(self):
        code, _, error = self.run_report(self.statistics(), "-o", "no/such/folder.html")
        self.assertEqual(code, 1)
        self.assertEqual(error, "ringpress report: no/such/folder.html: No such file or directory\n")

    def test_bad_command_lines(self):
        for words in ((), ("--bogus", "x"), ("x", "-o"), ("x", "-o", ""), ("x", "--text", "-o", "y")):
            self.assertEqual(self.run_report(*words)[0], 2, words)


if __name__ == "__main__":
    unittest.main()
