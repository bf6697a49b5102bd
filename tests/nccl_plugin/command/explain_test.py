#!/usr/bin/env python3
"""`ringpress explain` as people run it.

usage: explain_test.py RINGPRESS
"""
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop()).resolve()


def run(*arguments, **settings):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGPRESS")}
    return subprocess.run([PROGRAM, "explain", *arguments], capture_output=True, text=True, timeout=60,
                          env=environment | settings)


def explained(*arguments, **settings):
    done = run(*arguments, "--json", **settings)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def without_plugin(notes):
    return [note for note in notes if not note.startswith("in the plugin")]


class Explain(unittest.TestCase):
    def test_slow_links_are_worth_compression(self):
        for dtype in ("float32", "float16", "bfloat16"):
            found = explained("64M", dtype, "4", "--rate", "1gbit", "--codecs", "none,q4")
            self.assertEqual(found["choice"]["codec"], "q4")
            self.assertEqual([call["codec"] for call in found["calls"]], ["q4"] * 2 + ["none"] * 2)

    def test_quick_links_and_small_calls_are_not(self):
        # Codecs are measured here and now, maybe on a busy machine: the quickest one that is allowed wins.
        quick = explained("64M", "float32", "4", "--rate", "100000gbit")
        allowed = [call for call in quick["calls"] if call["allowed"]]
        best = min(allowed, key=lambda call: call["seconds"])
        self.assertEqual(quick["choice"]["codec"], best["codec"])
        small = explained("64", "float32", "4", "--rate", "10gbit", "--codecs", "none,q4")
        self.assertEqual(small["choice"]["codec"], "none")

    def test_no_choice_is_above_the_budget(self):
        found = explained("64M", "float32", "4", "--codecs", "q2:grid=lloyd,q4,q8", "--budget", "q8",
                          "--rate", "10mbit")
        self.assertEqual(found["choice"]["codec"], "q8")
        above = [call["codec"] for call in found["calls"] if not call["allowed"]]
        self.assertEqual(set(above), {"q2:grid=lloyd", "q4", "q8"})
        rings = [call["allowed"] for call in found["calls"]
                 if call["codec"] == "q8" and call["algorithm"] == "ring"]
        self.assertEqual(rings, [False])  # It would requantise at every hop.
        self.assertEqual(found["calls"][0]["codec"], "q2:grid=lloyd")  # A runner-up is shown.

    def test_no_choice_is_above_the_budget_of_the_settings(self):
        words = ("64M", "float32", "4", "--codecs", "none,q4,q8")
        self.assertEqual(explained(*words, RINGPRESS_BUDGET="q8")["choice"]["codec"], "q8")
        self.assertEqual(explained(*words, "--budget", "q4", RINGPRESS_BUDGET="q8")["choice"]["codec"], "q4")
        self.assertIn("above the error of q8", run(*words, RINGPRESS_BUDGET="q8").stdout)
        table = run("all", "float32", "4", "--codecs", "none,q4,q8", RINGPRESS_BUDGET="q8").stdout
        self.assertIn("| 67108864 | q8 | sra |", table)

    def test_the_budgets_codec_is_compared(self):
        words = ("1M", "float32", "2", "--rate", "100mbit")
        for backend, budget in (("host", "fp16"), ("host", "lossless"), ("auto", "fp16")):
            found = explained(*words, RINGPRESS_BUDGET=budget, RINGPRESS_BACKEND=backend)
            self.assertEqual(found["choice"]["codec"], budget, backend)
        found = explained(*words, RINGPRESS_BUDGET="lossless")
        self.assertEqual(found["choice"]["codec"], "none")
        self.assertEqual(found["left_exact"], "lossless cannot be used in streams")
        observed = explained(*words, RINGPRESS_CODEC="lossless", RINGPRESS="observe")
        self.assertEqual(observed["left_exact"], "lossless cannot be used in streams")

    def test_gpus_have_the_budgets_codec_alone(self):
        words = ("64M", "float32", "4", "--codecs", "none,bf16,q8,q4", "--rate", "100mbit")
        for backend, codecs in (("host", {"none", "bf16", "q8", "q4"}), ("auto", {"none", "q4"})):
            found = explained(*words, RINGPRESS_BACKEND=backend)
            self.assertEqual({call["codec"] for call in found["calls"] if call["allowed"]}, codecs, backend)
        self.assertIn("on GPUs auto takes q4 or none", run(*words).stdout)

    def test_the_budget_of_the_command_line_is_checked_as_the_settings_is(self):
        for budget, message in (("topk", "--budget topk: no codec that looks at tensors as a whole"),
                                ("q99", "--budget q99: unknown codec"), ("", "--budget")):
            done = run("1M", "float32", "2", "--budget", budget)
            self.assertEqual((done.returncode, done.stdout), (2, ""), budget)
            self.assertIn(message, done.stderr)
            self.assertNotIn("RINGPRESS_BUDGET", done.stderr)
        done = run("1M", "float32", "2", RINGPRESS_BUDGET="topk")
        self.assertIn("RINGPRESS_BUDGET=topk: no codec", done.stderr)

    def test_what_is_put_off_is_said(self):
        words = ("1M", "float32", "2", "--codecs", "none,q4")
        for dtype, collective, put_off in (("float32", "all_reduce", True), ("float16", "all_reduce", False),
                                           ("float32", "reduce_scatter", False)):
            found = explained("1M", dtype, "2", "--codecs", "none,q4", "--collective", collective, RINGPRESS_LAZY="4")
            self.assertEqual(len(without_plugin(found["notes"])), 1)
            self.assertTrue(found["notes"][0].startswith("RINGPRESS_LAZY=4: "), found["notes"])
            self.assertEqual("zeros until" in found["notes"][0], put_off, found["notes"])
        self.assertIn("RINGPRESS_LAZY=4: put off", run(*words, RINGPRESS_LAZY="4").stdout)
        self.assertIn("RINGPRESS_LAZY=4: put off", run("all", *words[1:], RINGPRESS_LAZY="4").stdout)
        self.assertEqual(without_plugin(explained(*words)["notes"]), [])

    def test_on_host_memory_all_gathers_are_exact(self):
        words = ("1M", "float32", "2", "--collective", "all_gather", "--codecs", "none,q4")
        settings = {"RINGPRESS_ALL_GATHER": "1", "RINGPRESS_CODEC": "q4"}
        found = explained(*words, RINGPRESS_BACKEND="host", **settings)
        self.assertEqual((found["choice"]["codec"], found["left_exact"]), ("none", "all_gather is always exact"))
        self.assertEqual(explained(*words, **settings)["choice"]["codec"], "q4")
        found = explained(*words, **settings | {"RINGPRESS_CODEC": "qsgd:bits=4"})
        self.assertIn("agrees on sums: all-gathers are exact", found["left_exact"])

    def test_a_communicator_without_a_name_has_no_rule_for_names(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("*,0,-1,-1,-1,-1,-1,-1,-1,-1,none,tp_*\n")
            file.flush()
            found = explained("64M", "float32", "4", "--codecs", "none,q4", RINGPRESS_RULES=file.name)
        self.assertEqual((found["choice"]["codec"], found["left_exact"]), ("q4", ""))

    def test_what_sends_no_fewer_bytes_is_no_choice(self):
        for dtype in ("float16", "bfloat16"):
            found = explained("64M", dtype, "4", "--codecs", "none,bf16")
            self.assertEqual({call["codec"] for call in found["calls"] if call["allowed"]}, {"none"})
            self.assertIn("sends no fewer bytes", run("64M", dtype, "4").stdout)
            for number in range(5):  # Else it would be chosen now and then.
                self.assertNotIn("bf16", run("all", dtype, "4", "--codecs", "none,bf16").stdout.split("us |", 1)[1],
                                 number)

    def test_the_table_begins_where_calls_are_compressed(self):
        for settings, first in (({}, 65536), ({"RINGPRESS_MIN_BYTES": "1000000"}, 1 << 20),
                                ({"RINGPRESS_MIN_BYTES": "4096"}, 4096)):
            done = run("all", "float32", "4", "--codecs", "none,q4", "--csv", **settings)
            rows = list(csv.DictReader(io.StringIO(done.stdout)))
            self.assertEqual(int(rows[0]["min_bytes"]), first, settings)
            self.assertEqual(int(rows[-1]["min_bytes"]), 1 << 30)

    def test_the_numbers_behind_it_are_the_formulas(self):
        found = explained("1M", "float32", "2", "--rate", "1gbit", "--latency", "1ms",
                          "--codecs", "none")
        for call in found["calls"]:
            self.assertEqual(call["wire_bytes"], 1 << 20)
            self.assertAlmostEqual(call["wire_seconds"], (1 << 20) / 125e6)
            self.assertAlmostEqual(call["latency_seconds"], 2e-3)
            self.assertGreaterEqual(call["seconds"], call["wire_seconds"] + call["latency_seconds"])

    def test_ranks_of_a_host_share_its_link(self):
        words = ("64M", "float32", "16", "--rate", "10gbit", "--codecs", "none,q4")
        flat, hosts = explained(*words), explained(*words, "--ranks-per-host", "8")
        self.assertEqual(hosts["choice"], {"codec": "q4", "algorithm": "hier"})
        self.assertNotIn("hier", [call["algorithm"] for call in flat["calls"]])
        wire = {name: [call["wire_seconds"] for call in found["calls"]
                       if (call["codec"], call["algorithm"]) == ("none", "sra")][0]
                for name, found in (("flat", flat), ("hosts", hosts))}
        self.assertAlmostEqual(wire["hosts"] / wire["flat"], 8 * (8 / 16) / (15 / 16))
        text = run(*words, "--ranks-per-host", "8", "--inside-rate", "200gbit").stdout
        self.assertIn("between hosts of 8, 200gbit and 5us inside", text)

    def test_what_the_library_leaves_exact_is_left_exact(self):
        for words, reason in (
                (("64M", "float32", "8", "--ranks-per-host", "8"), "all ranks share one host"),
                (("16K", "float32", "8"), "smaller than RINGPRESS_MIN_BYTES=65536"),
                (("64M", "float32", "8", "--collective", "all_gather"), "all_gather is always exact")):
            slow = (*words, "--rate", "10mbit", "--inside-rate", "10mbit", "--codecs", "none,q4")
            found = explained(*slow)
            self.assertEqual(found["choice"]["codec"], "none", words)
            self.assertTrue(found["left_exact"].startswith(reason), found["left_exact"])
            self.assertEqual({call["codec"] for call in found["calls"] if call["allowed"]}, {"none"})
            text = run(*slow).stdout
            self.assertIn(f"left exact: {reason}", text)
            self.assertIn("| left exact |", text)
        gathered = explained("64M", "float32", "8", "--collective", "all_gather", "--codecs", "none,q4",
                             RINGPRESS_ALL_GATHER="1")  # For the preloaded library.
        self.assertEqual(gathered["left_exact"], "")
        self.assertEqual({call["codec"] for call in gathered["calls"] if call["allowed"]}, {"none", "q4"})
        large = explained("64K", "float32", "8", "--rate", "10mbit", "--codecs", "none,q4")
        self.assertEqual(large["left_exact"], "")
        table = run("all", "float32", "8", "--ranks-per-host", "8", "--inside-rate", "10mbit").stdout
        self.assertIn("left exact: all ranks share one host", table)
        self.assertNotIn("q4", table)

    def test_says_what_the_plugin_makes_of_pieces(self):
        said = "in the plugin, which gets pieces of such a call from NCCL: "
        unknown = "; where NCCL does not say which tensor they are of: "
        words = ("64M", "float32", "4", "--codecs", "none,q4")
        for codec, pieces in (
                ("q4", "q4 with error feedback" + unknown + "q4:block=128,grid=uniform,round=stochastic without"
                 " error feedback"),
                ("topk", "topk with error feedback" + unknown +
                 "exact, as not known which tensor it is, and topk needs error feedback"),
                ("powersgd", "exact, as powersgd projects whole tensors, not pieces"),
                ("lossless", "lossless without error feedback"),
                ("none", "exact, as RINGPRESS_CODEC=none")):
            notes = explained(*words, RINGPRESS_CODEC=codec, RINGPRESS_WARMUP_STEPS="0")["notes"]
            self.assertEqual(notes, [said + pieces], codec)
        self.assertIn(said, run(*words).stdout)
        for more, settings in (((), {"RINGPRESS_BACKEND": "host"}), (("--ranks-per-host", "4"), {}),
                               (("--collective", "reduce_scatter"), {})):
            self.assertEqual(explained(*words, *more, RINGPRESS_CODEC="q4", **settings)["notes"], [])

    def test_says_where_a_codec_for_error_feedback_has_none(self):
        scatter = ("64M", "float32", "4", "--codecs", "none,topk", "--collective", "reduce_scatter")
        reduce = scatter[:-2]
        lost = "all-gathers and some reduce-scatters have no error feedback: what topk leaves out of"
        topk = {"RINGPRESS_CODEC": "topk", "RINGPRESS_BACKEND": "host", "RINGPRESS_WARMUP_STEPS": "0"}
        streams = topk | {"RINGPRESS_CODEC": "q1", "RINGPRESS_BACKEND": "cuda"}
        for words, settings, note in (
                (scatter, topk, lost),
                (scatter, topk | {"RINGPRESS_CODEC": "q1"}, None),
                (scatter, streams, lost.replace("topk", "q1")),
                (reduce, topk, None),
                (reduce, topk | {"RINGPRESS_EF": "0"}, "RINGPRESS_EF=0: what topk leaves out"),
                (scatter, topk | {"RINGPRESS_CODEC": "q8"}, None),
                (scatter, topk | {"RINGPRESS": "off"}, None)):
            notes = explained(*words, **settings)["notes"]
            self.assertEqual(len(notes), 0 if note is None else 1, (words, settings, notes))
            self.assertTrue(note is None or notes[0].startswith(note), notes)
        self.assertIn(f"\n{lost}".replace("topk", "q1"), run(*scatter, **streams).stdout)

    def test_says_which_codecs_have_a_warm_up(self):
        words = ("64M", "float32", "4", "--codecs", "none,q4")
        for codec, steps in (("q8", None), ("q4", None), ("q3", 10), ("q2", 30), ("topk", 100)):
            notes = explained(*words, RINGPRESS_CODEC=codec, RINGPRESS_BACKEND="host")["notes"]
            expected = [f"RINGPRESS_WARMUP_STEPS=auto: in the first {steps} steps of a training, as soon as they are "
                        "known, such a call is by q8"]
            self.assertEqual(notes, expected if steps else [], codec)

    def test_says_which_calls_have_coordinate_scales(self):
        words = ("64M", "float32", "4", "--codecs", "none,q4,qsgd")
        scales = {"RINGPRESS_EF": "scales", "RINGPRESS_BACKEND": "host"}
        as_auto = "RINGPRESS_EF=scales is as auto: "
        for settings, note in (
                ({"RINGPRESS_CODEC": "q4"}, "RINGPRESS_EF=scales: where that loses less"),
                ({"RINGPRESS_CODEC": "qsgd"}, as_auto + "qsgd takes no coordinate scales"),
                ({"RINGPRESS_CODEC": "q4", "RINGPRESS_LAZY": "2"}, as_auto + "calls that are put off"),
                ({"RINGPRESS_CODEC": "q4", "RINGPRESS_BACKEND": "cuda"}, "RINGPRESS_EF=scales: where that loses less"),
                ({"RINGPRESS_CODEC": "q4", "RINGPRESS_EF": "auto"}, None)):
            notes = [note for note in explained(*words, **(scales | settings))["notes"] if "RINGPRESS_EF" in note]
            self.assertEqual(len(notes), 0 if note is None else 1, (settings, notes))
            self.assertTrue(note is None or notes[0].startswith(note), notes)

    def test_automatic_mode_has_coordinate_scales_where_links_are_slow(self):
        settings = {"RINGPRESS_CODEC": "auto", "RINGPRESS_BACKEND": "host"}
        for rate, more, note in (
                ("50mbit", {}, "RINGPRESS_EF=auto: where that loses less, such calls by q4 have"),
                ("400gbit", {}, "RINGPRESS_EF=auto: such calls by q4 have no"),
                ("50mbit", {"RINGPRESS_EF": "plain"}, None),
                ("50mbit", {"RINGPRESS_LAZY": "2"}, None)):
            words = ("64M", "float32", "4", "--rate", rate, "--codecs", "none,q4")
            notes = [note for note in explained(*words, **(settings | more))["notes"] if "RINGPRESS_EF" in note]
            self.assertEqual(len(notes), 0 if note is None else 1, (rate, more, notes))
            self.assertTrue(note is None or notes[0].startswith(note), notes)

    def test_a_codec_of_the_settings_is_the_choice(self):
        words = ("64M", "float32", "4", "--codecs", "none,q4,q8")
        for settings, codec, by in (
                ({"RINGPRESS_CODEC": "q8"}, "q8", "RINGPRESS_CODEC=q8"),
                ({"RINGPRESS_CODEC": "lossless"}, "lossless", "RINGPRESS_CODEC=lossless"),  # Not among them.
                ({"RINGPRESS_CODEC": "q2", "RINGPRESS_BUDGET": "q8"}, "q2", "RINGPRESS_CODEC=q2"),
                ({"RINGPRESS": "lossless"}, "lossless", "RINGPRESS=lossless"),
                ({"RINGPRESS": "lossless", "RINGPRESS_CODEC": "q8"}, "lossless", "RINGPRESS=lossless"),
                ({"RINGPRESS_DETERMINISTIC": "1"}, "q4", "RINGPRESS_DETERMINISTIC=1")):
            settings = settings | {"RINGPRESS_BACKEND": "host"}  # Where lossless can be.
            # However little it helps.
            for rate in ("1gbit", "100000gbit"):
                found = explained(*words, "--rate", rate, **settings)
                self.assertEqual(found["choice"], {"codec": codec, "algorithm": "sra"}, settings)
                self.assertEqual((found["decided_by"], found["left_exact"]), (by, ""))
                self.assertEqual([call["codec"] for call in found["calls"] if call["allowed"]], [codec])
            text = run(*words, **settings).stdout
            self.assertIn(f"decided by {by}; what others would make of it is below", text)
            self.assertIn(f"| not by {by} |", text)
            self.assertIn("| the library takes sra |", text)
            table = run("all", *words[1:], **settings).stdout
            self.assertRegex(table, rf"\n\| 67108864 \| {codec} \| sra \| .* \| {by} \|\n")
            rows = list(csv.DictReader(io.StringIO(run("all", *words[1:], "--csv", **settings).stdout)))
            self.assertEqual({row["codec"] for row in rows}, {codec}, settings)

    def test_a_codec_that_looks_at_the_whole_tensor_has_a_model(self):
        found = explained("64M", "float32", "4", RINGPRESS_CODEC="topk:density=0.01", RINGPRESS_BACKEND="host")
        self.assertEqual(found["choice"], {"codec": "topk:density=0.01", "algorithm": "sra"})
        # Others may be measured as quicker, on a busy machine.
        call = next(call for call in found["calls"] if call["codec"] == "topk:density=0.01")
        # 2 * 3/4 of the values' bytes, of which a hundredth is sent in some 16 bits each, and in the second half up
        # to four hundredths, as each rank has others.
        self.assertGreater(call["wire_bytes"], 1.5 * (64 << 20) * 0.008)
        self.assertLess(call["wire_bytes"], 1.5 * (64 << 20) * 0.014)

    def test_codecs_whose_ranks_talk_first_or_that_project_have_a_model(self):
        # Bytes that a rank sends of 64 MiB among 4, as fractions of 2 * 3/4 of them: codes of 5 bits and of 7 in a
        # sum, and norms; a hundredth of the values; two matrices of 4 columns and 4096 rows.
        for codec, least, most in (("qsgd:bits=4", 6 / 32, 6.5 / 32), ("qsgd-ms:bits=4/8", 6.5 / 32, 7.5 / 32),
                                   ("qsgd:bits=4,norm=global", 5.9 / 32, 6.1 / 32), ("randk:density=0.01", 0.01, 0.0101),
                                   ("powersgd:rank=4", 0.0019, 0.0021)):
            found = explained("64M", "float32", "4", "--latency", "1ms", RINGPRESS_CODEC=codec)
            self.assertEqual(found["choice"], {"codec": codec, "algorithm": "sra"})
            call = [call for call in found["calls"] if call["allowed"]][0]
            sent = call["wire_bytes"] / (1.5 * (64 << 20))
            self.assertGreater(sent, least, codec)
            self.assertLess(sent, most, codec)
            # More than the two steps of a codec that says nothing before.
            self.assertGreater(call["latency_seconds"], 2.5e-3, codec)
            table = run("all", "float32", "4", RINGPRESS_CODEC=codec).stdout
            self.assertIn(f"| 67108864 | {codec} | sra |", table)

    def test_projections_are_never_hierarchical(self):
        words = ("64M", "float32", "16", "--ranks-per-host", "8")
        hosts = explained(*words, RINGPRESS_CODEC="powersgd:rank=4")
        self.assertEqual(hosts["choice"], {"codec": "powersgd:rank=4", "algorithm": "sra"})
        allowed = [call for call in hosts["calls"] if call["allowed"]]
        self.assertNotIn("hier", {call["algorithm"] for call in allowed})
        self.assertGreater(allowed[0]["codec_seconds"], 0)

    def test_what_takes_part_in_all_reduces_only_is_not_used_for_others(self):
        words = ("64M", "float32", "4", "--collective", "reduce_scatter", "--codecs", "none,q4")
        found = explained(*words, RINGPRESS_CODEC="powersgd:rank=4")
        self.assertEqual(found["left_exact"], "powersgd:rank=4 compresses all-reduces only")
        self.assertEqual(found["choice"]["codec"], "none")
        done = run(*words[:-1], "none,powersgd:rank=4")
        self.assertEqual(done.returncode, 2)
        self.assertIn("powersgd:rank=4 takes part in all-reduces only", done.stderr)

    def test_on_host_memory_hier_is_sra(self):
        words = ("64M", "float32", "16", "--rate", "10gbit", "--ranks-per-host", "8", "--codecs", "none,q4")
        for settings in ({"RINGPRESS_BACKEND": "host"}, {"RINGPRESS_BACKEND": "host", "RINGPRESS_ALGO": "hier"},
                         {"RINGPRESS_BACKEND": "host", "RINGPRESS_CODEC": "q4"}):
            found = explained(*words, **settings)
            self.assertEqual(found["choice"], {"codec": "q4", "algorithm": "sra"}, settings)
            self.assertNotIn("hier", [call["algorithm"] for call in found["calls"]])

    def test_a_codec_that_sends_no_fewer_bytes_is_not_used_though_it_is_set(self):
        for backend in ("auto", "host"):
            found = explained("64M", "float16", "4", "--codecs", "none,q4", RINGPRESS_CODEC="bf16",
                              RINGPRESS_BACKEND=backend)
            self.assertEqual(found["choice"]["codec"], "none")
            self.assertEqual(found["left_exact"], "bf16 makes float16 no smaller")

    def test_a_codec_is_known_however_it_is_written(self):
        for name, setting in (("q4:block=128", "q4"), ("q4", "q4:block=128")):
            found = explained("64M", "float32", "4", "--codecs", f"none,{name}", RINGPRESS_CODEC=setting)
            self.assertEqual(found["choice"]["codec"], name)
            self.assertEqual({call["codec"] for call in found["calls"]}, {"none", name})

    def test_settings_leave_calls_exact(self):
        for settings, reason in (
                ({"RINGPRESS_CODEC": "none"}, "RINGPRESS_CODEC=none"),
                ({"RINGPRESS_BUDGET": "none"}, "RINGPRESS_BUDGET=none"),
                ({"RINGPRESS": "off", "RINGPRESS_CODEC": "q8"}, "RINGPRESS=off"),
                ({"RINGPRESS": "observe", "RINGPRESS_CODEC": "q8"}, "RINGPRESS=observe: would be q8")):
            found = explained("64M", "float32", "4", "--codecs", "none,q4", **settings)
            self.assertEqual(found["choice"], {"codec": "none", "algorithm": "sra"}, settings)
            self.assertEqual((found["left_exact"], found["decided_by"]), (reason, ""))
            table = run("all", "float32", "4", "--codecs", "none,q4", **settings).stdout
            self.assertIn(f"| left exact: {reason} |", table)
            self.assertNotIn("| q4 |", table)

    def test_an_algorithm_of_the_settings_is_the_choice(self):
        words = ("64M", "float32", "16", "--codecs", "none,q4,q8")
        for settings, algorithm in (({"RINGPRESS_ALGO": "ring"}, "ring"),
                                    ({"RINGPRESS_ALGO": "sra"}, "sra"),
                                    ({"RINGPRESS_ALGO": "hier"}, "sra"),  # Each rank has a host.
                                    ({"RINGPRESS_ALGO": "ring", "RINGPRESS_CODEC": "q4"}, "ring")):
            found = explained(*words, **settings)
            self.assertEqual(found["choice"], {"codec": "q4", "algorithm": algorithm}, settings)
            allowed = {call["algorithm"] for call in found["calls"] if call["allowed"]}
            self.assertEqual(allowed, {algorithm}, settings)
            name = settings["RINGPRESS_ALGO"]
            self.assertIn(f"| not by RINGPRESS_ALGO={name} |", run(*words, **settings).stdout)
        table = run("all", *words[1:], RINGPRESS_ALGO="ring").stdout
        self.assertIn("| RINGPRESS_ALGO=ring |", table)
        self.assertNotIn("| sra |", table)
        # Whichever is quicker: inside hosts everything is slow here.
        hosts = (*words, "--ranks-per-host", "8", "--inside-rate", "1gbit")
        for settings, algorithm in (({"RINGPRESS_ALGO": "hier"}, "hier"), ({"RINGPRESS_ALGO": "sra"}, "sra"),
                                    ({"RINGPRESS_CODEC": "q4"}, "hier")):
            found = explained(*hosts, **settings)
            self.assertEqual(found["choice"]["algorithm"], algorithm, settings)
            exact = {call["algorithm"] for call in found["calls"] if call["allowed"] and call["codec"] == "none"}
            self.assertNotIn("hier", exact, settings)
        self.assertNotEqual(explained(*hosts, RINGPRESS_BACKEND="host")["choice"]["algorithm"], "hier")
        compressed = {call["algorithm"] for call in explained(*hosts)["calls"]
                      if call["allowed"] and call["codec"] != "none"}
        self.assertEqual(compressed, {"hier"})  # On GPUs algorithms are not tried.

    def test_rules_are_followed(self):
        words = ("64M", "float32", "8", "--ranks-per-host", "4", "--codecs", "none,q4")
        for rule, codec, algorithm, by, exact in (
                ("allreduce,0,-1,-1,-1,-1,-1,8,-1,-1,q8", "q8", "hier", "a rule", ""),
                ("allreduce,0,-1,-1,-1,-1,2,8,-1,-1,q8", "q8", "hier", "a rule", ""),
                # In streams only RINGPRESS_ALGO says ring.
                ("allreduce,0,-1,ring,-1,-1,-1,8,-1,-1,q8", "q8", "sra", "a rule", ""),
                ("allreduce,0,-1,-1,-1,-1,-1,8,-1,-1,none", "none", "hier", "", "line 1 of RINGPRESS_RULES"),
                ("allreduce,0,1000000,-1,-1,-1,-1,-1,-1,-1,none", "q4", "hier", "", ""),  # Of smaller calls,
                ("allreduce,0,-1,-1,-1,-1,-1,16,-1,-1,none", "q4", "hier", "", ""),      # of more ranks,
                ("allreduce,0,-1,-1,-1,-1,8,-1,-1,-1,none", "q4", "hier", "", "")):      # of more hosts.
            with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
                file.write(rule + "\n")
                file.flush()
                found = explained(*words, RINGPRESS_RULES=file.name)
            self.assertEqual(found["choice"], {"codec": codec, "algorithm": algorithm}, rule)
            self.assertEqual((found["decided_by"], found["left_exact"]), (by, exact), rule)

    def test_a_rule_chooses_a_ring_on_host_memory(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("allreduce,0,-1,ring,-1,-1,-1,8,-1,-1,q8\n")
            file.flush()
            found = explained("64M", "float32", "8", "--codecs", "none,q4", RINGPRESS_RULES=file.name,
                              RINGPRESS_BACKEND="host")
        self.assertEqual(found["choice"], {"codec": "q8", "algorithm": "ring"})

    def test_a_rule_of_an_algorithm_leaves_the_codec_to_automatic_mode(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("allreduce,0,-1,sra\n")
            file.flush()
            for size, codec in (("64M", "q4"), ("64", "none")):
                found = explained(size, "float32", "8", "--codecs", "none,q4", "--rate", "1gbit",
                                  RINGPRESS_RULES=file.name)
                self.assertEqual(found["choice"], {"codec": codec, "algorithm": "sra"})
                self.assertEqual(found["decided_by"], "")
            text = run("64M", "float32", "8", "--codecs", "none,q4", RINGPRESS_RULES=file.name).stdout
            self.assertIn("| not by a rule |", text)

    def test_an_uncompressed_choice_is_as_quick_as_no_codec(self):
        for words, settings in ((("1K", "float32", "64"), {}), (("1M", "float32", "64"), {"RINGPRESS_CODEC": "none"}),
                                (("1M", "float32", "8", "--ranks-per-host", "4"), {"RINGPRESS_CODEC": "none"}),
                                (("1M", "float32", "64", "--ranks-per-host", "8"), {"RINGPRESS": "off"})):
            found = explained(*words, "--codecs", "none,q4", **settings)
            self.assertEqual(found["choice"]["codec"], "none")
            chosen = [call for call in found["calls"] if call["allowed"]][0]
            self.assertEqual(chosen["seconds"], found["uncompressed_seconds"], words)

    def test_exact_calls_of_gpus_are_nccls_by_every_algorithm(self):
        # So that speed-ups compare like with like: by hier half as many bytes leave two hosts as by a ring.
        words = ("64M", "float32", "16", "--ranks-per-host", "8", "--rate", "10gbit", "--codecs", "none,q4")
        found = explained(*words)
        exact = {call["algorithm"]: call for call in found["calls"] if call["codec"] == "none"}
        self.assertEqual(set(exact), {"sra", "ring", "hier"})
        q4 = next(call for call in found["calls"] if (call["codec"], call["algorithm"]) == ("q4", "hier"))
        self.assertAlmostEqual(exact["hier"]["wire_seconds"] / q4["wire_seconds"], 32 / 4.125, delta=0.1)
        for settings in ({}, {"RINGPRESS_CODEC": "q4"}, {"RINGPRESS_CODEC": "q4", "RINGPRESS_ALGO": "hier"},
                         {"RINGPRESS": "off"}):
            found = explained(*words, **settings)
            self.assertEqual(found["uncompressed_seconds"],
                             min(call["seconds"] for call in found["calls"] if call["codec"] == "none"))
        on_host = explained(*words, RINGPRESS_BACKEND="host")
        self.assertNotIn("hier", {call["algorithm"] for call in on_host["calls"]})

    def test_what_cannot_be_a_rule_is_in_no_file_of_rules(self):
        done = run("all", "float32", "8", "--csv", RINGPRESS_CODEC="powersgd")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("powersgd looks at whole tensors, and cannot be in a file of rules", done.stderr)

    def test_rules_for_some_sizes_hold_for_these_in_the_table(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            file.write("allreduce,0,1048575,-1,-1,-1,-1,-1,-1,-1,none\n"
                       "allreduce,1048576,4194303,ring,-1,-1,-1,-1,-1,-1,q8\n")
            file.flush()
            done = run("all", "float32", "4", "--codecs", "none,q4", "--csv", RINGPRESS_RULES=file.name,
                       RINGPRESS_BACKEND="host")
        for row in csv.DictReader(io.StringIO(done.stdout)):
            size = int(row["min_bytes"])
            expected = ("none", "sra") if size < 1 << 20 else ("q8", "ring") if size < 1 << 22 else ("q4", "sra")
            self.assertEqual((row["codec"], row["ringpress_algorithm"]), expected, row)

    def test_a_ring_loses_more_at_every_hop(self):
        found = explained("64M", "float32", "8", "--collective", "reduce_scatter", "--codecs", "none,q4")
        self.assertFalse(all(call["allowed"] for call in found["calls"]))

    def test_the_table_is_readable(self):
        text = run("1.5M", "bfloat16", "8", "--rate", "100mbit").stdout
        self.assertIn("all_reduce of 1.5M of bfloat16, 8 ranks, 100mbit and 50us a link", text)
        self.assertRegex(text, r"choice: \S+ by (sra|ring), [0-9.]+ ms; [0-9.]+ times as fast as none")
        self.assertIn("| q2 | sra |", text)
        self.assertIn("above the error of q4", text)

    def test_all_sizes_are_a_table(self):
        arguments = ("all", "float32", "4", "--rate", "1gbit", "--codecs", "none,q4,q2")
        text = run(*arguments).stdout
        self.assertIn("| 67108864 | q4 | sra |", text)
        self.assertNotIn("q2", text)
        rows = list(csv.DictReader(io.StringIO(run(*arguments, "--csv").stdout)))
        self.assertEqual(list(rows[0])[:10],
                         ["collective_type", "min_bytes", "max_bytes", "algorithm", "protocol", "channels",
                          "nNodes", "nRanks", "numPipeOps", "regBuff"])
        for row, following in zip(rows, rows[1:]):
            self.assertEqual(int(row["max_bytes"]) + 1, int(following["min_bytes"]))
            self.assertLessEqual(float(row["predicted_us"]), float(row["uncompressed_us"]))
        self.assertEqual((rows[-1]["codec"], rows[-1]["algorithm"]), ("q4", "collnet_direct"))

    def test_what_the_library_refuses_is_refused(self):
        for settings, message in (
                ({"RINGPRESS_MIN_BYTES": "abc"}, "RINGPRESS_MIN_BYTES=abc: expected a size"),
                ({"RINGPRESS_ALGO": "rign"}, "RINGPRESS_ALGO=rign: expected one of "),
                ({"RINGPRESS_BUDGET": "q99"}, "RINGPRESS_BUDGET"),
                ({"RINGPRESS_RULES": "/no/such/file"}, "/no/such/file"),
                ({"RINGPRESS_CODEC": "q99"}, "RINGPRESS_CODEC=q99: ")):
            for size in ("64M", "all"):
                done = run(size, "float32", "4", **settings)
                self.assertEqual((done.returncode, done.stdout), (2, ""), (settings, done.stderr))
                self.assertTrue(done.stderr.startswith("ringpress: explain: "), done.stderr)
                self.assertIn(message, done.stderr)

    def test_mistakes_are_named(self):
        for arguments, message in [
                (("64Q", "float32", "4"), '"64Q" is not a size such as 65536, 64K, 1.5M or 2G'),
                (("8E", "float32", "4"), '"8E" is not a size of at most 1024T'),
                (("0", "float32", "4"), "a call of 0 bytes sends nothing"),
                (("5", "float32", "4"), "5 bytes are no whole number of float32"),
                (("3", "bfloat16", "4"), "3 bytes are no whole number of bfloat16"),
                (("64M", "int32", "4"), '"int32" is no type that is compressed'),
                (("64M", "float32", "1"), "there must be two ranks at least"),
                (("64M", "float32", "4", "--rate", "fast"), '"fast" is not one such as 1gbit'),
                (("64M", "float32", "4", "--rate", "-1gbit"), '"-1gbit" is not one such as 1gbit'),
                (("64M", "float32", "4", "--latency", "5"), '"5" is not one such as 50us'),
                (("64M", "float32", "4", "--codecs", "q9"), '--codecs q9: unknown codec "q9"'),
                (("64M", "float32", "4", "--codecs", ","), "--codecs ,: an empty setting"),
                (("64M", "float32", "4", "--csv"), "--csv is for all sizes"),
                (("all", "float32", "4", "--json"), "not --json"),
                (("64M", "float32", "4", "--ranks-per-host", "3"), "4 ranks are not 3 to a host"),
                (("64M", "float32", "4", "--ranks-per-host", "0"), "4 ranks are not 0 to a host"),
                (("64M", "float32", "4", "--collective", "broadcast"), "is no collective that is compressed"),
                (("all", "float32", "4", "--csv", "--collective", "all_gather"), "--csv is of all-reduces"),
                (("64M", "float32"), "NRANKS"),
                (("64M", "float32", "four"), "NRANKS")]:
            done = run(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(message, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
