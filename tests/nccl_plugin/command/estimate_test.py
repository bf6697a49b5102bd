#!/usr/bin/env python3
"""`ringpress estimate` as people run it.

usage: estimate_test.py RINGPRESS
"""
import json
import os
import pathlib
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
WORDS = {"--params": "1.3B", "--dtype": "bf16", "--gpus": "16", "--per-host": "8", "--net": "100gbit",
         "--step-ms": "600", "--gpu": "h100"}


def run(changes=None, *more):
    words = [word for pair in (WORDS | (changes or {})).items() if pair[1] is not None for word in pair]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RINGPRESS")}
    return subprocess.run([PROGRAM, "estimate", *words, *more], capture_output=True, text=True, timeout=100,
                          check=False, env=environment)


def estimated(changes=None, *more):
    done = run(changes, *more, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def row_of(found, door, codec):
    return next(row for row in found["rows"] if (row["door"], row["codec"]) == (door, codec))


class Estimate(unittest.TestCase):
    def test_the_example(self):
        found = estimated()
        self.assertEqual(found["gradient_bytes"], 2.6e9)
        self.assertEqual(found["rows"][0]["codec"], "none")
        self.assertEqual({row["door"] for row in found["rows"]}, {"-", "A", "B"})
        for row in found["rows"]:
            self.assertGreaterEqual(row["step_seconds"], 0.6)
            least, most = row["likely_speed_up"]
            self.assertLessEqual(least, most)
            if row["door"] != "-":
                self.assertLessEqual(least, row["speed_up"] * 1.001)
                self.assertGreaterEqual(most, row["speed_up"] * 0.999)
        self.assertEqual(row_of(found, "A", "q4")["rates"], "predicted")

    def test_no_codec_is_compared_by_every_algorithm(self):
        # Two hosts: without a codec whole gradients leave a host, by hier; with q4 their 4.1 bits of 16.
        found = estimated({"--net": "10gbit"})
        none, q4 = found["rows"][0], row_of(found, "A", "q4")
        self.assertEqual((none["algorithm"], q4["algorithm"]), ("hier", "hier"))
        self.assertAlmostEqual(none["sent_by_a_host_bytes"] / 2.6e9, 1, delta=0.01)
        self.assertAlmostEqual(q4["sent_by_a_host_bytes"] / none["sent_by_a_host_bytes"], 4.125 / 16, delta=0.01)
        self.assertLess(q4["speed_up"], 16 / 4.125)

    def test_slow_networks_are_worth_it_and_quick_ones_are_not(self):
        slow, quick = estimated({"--net": "10gbit"}), estimated({"--net": "800gbit"})
        self.assertTrue(slow["advice"].startswith("worth it: "), slow["advice"])
        self.assertTrue(quick["advice"].startswith("not worth it: the network is hidden"), quick["advice"])
        self.assertIn("at 800gbit", quick["advice"])
        self.assertLess(quick["rows"][0]["exposed_seconds"], slow["rows"][0]["exposed_seconds"])

    def test_ranks_of_one_host(self):
        found = estimated({"--gpus": "8"})
        self.assertTrue(found["advice"].startswith("not worth it: all ranks are on one host"), found["advice"])

    def test_a_step_that_was_measured(self):
        given = estimated({"--net": "10gbit"})
        step = 1e3 * given["rows"][0]["step_seconds"]
        measured = estimated({"--net": "10gbit", "--step-ms": f"{step:.6f}"}, "--measured-step")
        self.assertAlmostEqual(measured["compute_seconds"], 0.6, places=4)
        done = run({"--net": "10gbit", "--step-ms": "10"}, "--measured-step")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--step-ms 10 with --measured-step: the all-reduces alone would take", done.stderr)

    def test_machines_without_a_gpu(self):
        words = {"--gpu": "none", "--gpus": "4", "--per-host": "1", "--net": "1gbit", "--params": "25M", "--dtype":
                 "fp32"}
        found = estimated(words)
        self.assertEqual({row["door"] for row in found["rows"]}, {"-", "C"})
        self.assertNotIn("hier", {row["algorithm"] for row in found["rows"]})
        few, many = estimated(words | {"--net": "40gbit"}, "--cores", "1"), estimated(words | {"--net": "40gbit"})
        self.assertGreater(row_of(few, "C", "q4")["bucket_seconds"], 0)
        self.assertGreaterEqual(few["rows"][0]["bucket_seconds"], many["rows"][0]["bucket_seconds"])

    def test_as_people_type(self):
        usual = estimated({"--gpu": "h200"})
        for changes in ({"--params": "1.3G"}, {"--params": "1300m"}, {"--dtype": "bfloat16"}, {"--net": "100Gb"},
                        {"--net": "100Gb/s"}, {"--net": "100G"}, {"--net": "100Gbps"}, {"--gpu": "H200"}):
            found = estimated({"--gpu": "h200"} | changes)
            self.assertEqual(found["rows"][0], usual["rows"][0], changes)
        self.assertEqual(row_of(usual, "A", "q4")["rates"], "measured")

    def test_codecs_and_doors(self):
        found = estimated(None, "--codecs", "none,q4:block=64,topk,powersgd", "--doors", "A")
        self.assertEqual([row["codec"] for row in found["rows"]], ["none"])
        self.assertEqual(len(found["notes"]), 3, found["notes"])
        found = estimated(None, "--codecs", "powersgd,q8", "--doors", "B")
        self.assertEqual([row["codec"] for row in found["rows"]], ["none", "q8"])

    def test_for_people(self):
        text = run().stdout
        self.assertIn("1.3B parameters, 2.6 GB of gradients in 100 buckets of 25M: 16 h100, 8 to a host", text)
        self.assertIn("on h100 they are predicted by the rate of its memory", text)
        self.assertRegex(text, r"\| A \| q4 \| hier \| \d+ MB \| .* \| predicted \|")
        self.assertIn("compress_kernels/codecs.md", text)

    def test_mistakes_are_named(self):
        for changes, more, message in (
                ({"--params": "many"}, (), "--params many: expected a number of parameters, such as 350M"),
                ({"--dtype": "int8"}, (), "--dtype int8: expected fp32, bf16 or fp16"),
                ({"--gpus": "1"}, (), "--gpus 1: there must be two at least"),
                ({"--per-host": "3"}, (), "--per-host 3: 16 ranks are not so many to a host"),
                ({"--net": "fast"}, (), "--net fast: expected bits a second"),
                ({"--net": "12GB/s"}, (), "--net 12GB/s: that is in bytes"),
                ({"--step-ms": "0"}, (), "--step-ms 0: expected milliseconds above 0"),
                ({"--gpu": "h101"}, (), "--gpu h101: it is not in the table (maybe h100?); there are b200, h200"),
                ({}, ("--bucket", "many"), "--bucket many: expected a size"),
                ({}, ("--codecs", "q44"), "--codecs q44: unknown codec"),
                ({}, ("--doors", "D"), "--doors D: there are A, B and C"),
                ({}, ("--doors", "C"), "--doors C: door C is for machines without a GPU"),
                ({"--gpu": "none"}, ("--doors", "A"), "--doors A: door A is for machines with a GPU"),
                ({}, ("--latency", "5"), "--latency 5: expected a time"),
                ({}, ("--cores", "0"), "--cores 0: a host has one at least"),
                ({"--params": None}, (), "--params is required"),
                ({"--net": None}, (), "--net is required")):
            done = run(changes, *more)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (changes, more))
            self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
