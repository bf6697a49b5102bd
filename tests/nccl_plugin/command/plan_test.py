#!/usr/bin/env python3
"""`ringpress plan` as people run it: the five jobs, and job files with mistakes.

usage: plan_test.py RINGPRESS PERF_FOLDER
"""
import csv
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from json_fields import leaves_of, value_at, variations, with_value

PERF = pathlib.Path(sys.argv.pop()).resolve()
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
JOBS = sorted((PERF / "jobs").glob("*.json"))

GOOD = """{"name": "two & <three>",
 "machines": 2, "gpus_per_machine": 2,
 "inside": {"latency_us": 5, "gigabytes_per_second": 100},
 "between": {"latency_us": 15, "gigabytes_per_second": 1},
 "compressor": {"name": "q4", "ratio": 0.13,
  "gpu": {"compress": {"start_us": 5, "gigabytes_per_second": 500},
          "decompress": {"start_us": 5, "gigabytes_per_second": 500}}},
 "tensors": [
  {"name": "large", "bytes": 40000000, "backward_us": 100},
  {"bytes": 400, "backward_us": 100}
 ]}
"""
# What is replaced, by what, and what the message then says after the file's name.
MISTAKES = [
    ('"machines": 2', '"machines": 0',
     "2: machines: must be a whole number from 1 to 2^20, not 0"),
    ('"machines": 2', '"machines": 2.5',
     "2: machines: must be a whole number from 1 to 2^20, not 2.5"),
    ('"machines": 2', '"machines": "two"',
     "2: machines: must be a whole number from 1 to 2^20, not a text"),
    ('"machines": 2', '"machine": 2',
     '2: machine: is not known (maybe machines?); allowed are "machines", "gpus_per_machine", '),
    ('"machines": 2, "gpus_per_machine": 2', '"machines": 1048576, "gpus_per_machine": 2',
     '2: gpus_per_machine: machines x gpus_per_machine must be at most 2^20'),
    ('"machines": 2, ', "", '1: machines: is missing; "machines", "gpus_per_machine", '),
    ('"machines": 2', '"machines": 2, "machines": 2', '2: "machines" is there twice'),
    ('"ratio": 0.13', '"ratio": 1.13',
     "5: compressor.ratio: must be a number from 1e-9 to 1, not 1.13"),
    ('"gigabytes_per_second": 1}', '"gigabytes_per_second": 0}',
     "4: between.gigabytes_per_second: must be a number from 1e-9 to 1e9, not 0"),
    ('{"latency_us": 5, "gigabytes_per_second": 100}', "5",
     "3: inside: must be an object, not 5"),
    ('"bytes": 400,', '"bytes": -4,',
     "10: tensors[1].bytes: must be a whole number from 1 to 2^53, not -4"),
    ('"bytes": 400,', '"bytes": 1e300,', "10: tensors[1].bytes: must be a whole number from 1 to "),
    ('"bytes": 400, "backward_us": 100', '"bytes": 400',
     '10: tensors[1].backward_us: is missing; "bytes", "backward_us" are needed'),
    ('"name": "large"', '"name": 7', "9: tensors[0].name: must be a text, not 7"),
    ('{"bytes": 400, "backward_us": 100}', "7\n", "10: tensors[1]: must be an object, not 7"),
    ('"start_us": 5', '"start_us": null',
     "6: compressor.gpu.compress.start_us: must be a number from 0 to 1e12, not null"),
    ('"start_us": 5', '"start_us": 1e999', "6: not JSON: "),
    ("]}\n", "]\n", "12: not JSON: "),
    ('"name": "q4"', '"name": ' + "[" * 100 + "]" * 100, "5: nested too deep"),
    ('"tensors": [', '"tensors": [' + '{"bytes": 4, "backward_us": 1},' * 9999,
     "8: tensors: must be a list of 1 to 10000 tensors, not a list of 10001"),
    ('"name": "large"', "".join(f'"k{i}": 0,' for i in range(101)) + '"name": "large"',
     "9: an object has too many members"),
    (GOOD, "", "1: not JSON: "),
    (GOOD, "[]", "1: the job: must be an object, not a list of 0"),
]


# A job in which every field that there is matters.
VARIED = """{"name": "varied", "note": "free", "machines": 2, "gpus_per_machine": 2, "forward_ms": 3,
 "inside": {"latency_us": 5, "gigabytes_per_second": 2},
 "between": {"latency_us": 15, "gigabytes_per_second": 1},
 "compressor": {"name": "q4", "note": "free", "ratio": 0.13,
  "gpu": {"compress": {"start_us": 50, "gigabytes_per_second": 20},
          "decompress": {"start_us": 50, "gigabytes_per_second": 20}},
  "cpu": {"compress": {"start_us": 50, "gigabytes_per_second": 30},
          "decompress": {"start_us": 50, "gigabytes_per_second": 15}}},
 "model": {"workers": 4, "codec": "q4", "bytes_per_step": 100000000, "ratio_reduce_scatter": 0.3,
  "ratio_all_gather": 0.2, "link_gigabytes_per_second": 1, "codec_gigabytes_per_second": 10,
  "compute_ms": 30, "overhead_ms": 1},
 "tensors": [{"name": "large", "bytes": 40000000, "backward_us": 20000},
             {"name": "small", "bytes": 4000000, "backward_us": 9000}]}
"""


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def plan(self, *arguments):
        done = subprocess.run([PROGRAM, "plan", *arguments], capture_output=True, check=False,
                              timeout=100)
        return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")

    def plan_text(self, text, *arguments):
        path = self.folder / "job.json"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        code, out, error = self.plan(*arguments, path)
        return code, out, error.replace(str(path), "JOB")

    def planned(self, text, *arguments):
        code, out, error = self.plan_text(text, "--json", *arguments)
        self.assertEqual((code, error), (0, ""))
        return json.loads(out)


class Plan(Command):
    def test_mistakes_are_named(self):
        for old, new, expected in MISTAKES:
            self.assertIn(old, GOOD)
            code, out, error = self.plan_text(GOOD.replace(old, new, 1))
            self.assertEqual((code, out), (2, ""), (new, error))
            self.assertTrue(error.startswith(f"ringpress plan: JOB:{expected}"), (new, error))
            self.assertEqual(error.count("\n"), 1, error)

    def test_no_field_is_inert(self):
        job = json.loads(VARIED)
        before = self.result_of(job)
        self.assertEqual(before[0], 0, before)
        for path in sorted(leaves_of(job), key=str):
            # These say of themselves that a plan does not depend on them; their values are checked.
            if path[-1] == "note" or path[0] == "model":
                continue
            with self.subTest(path=path):
                self.assertTrue(any(self.result_of(with_value(job, path, value)) != before
                                    for value in variations(value_at(job, path))),
                                f"{path} makes no difference")

    def result_of(self, job):
        text = json.dumps(job)
        code, out, error = self.plan_text(text)
        return code, out, error, self.plan_text(text, "--json")[1]

    def test_a_job_has_tensors(self):
        job = json.loads(GOOD)
        for tensors, found in (([], "a list of 0"), ({}, "an object"), (None, "null")):
            _, _, error = self.plan_text(json.dumps({**job, "tensors": tensors}))
            self.assertEqual(error, "ringpress plan: JOB:1: tensors: must be a list of 1 to 10000 "
                                    f"tensors, not {found}\n")

    def test_files_that_are_not_there(self):
        for path in (self.folder / "none.json", self.folder):
            code, out, error = self.plan(path)
            self.assertEqual((code, out), (2, ""), path)
            self.assertIn(str(path), error)
        code, out, error = self.plan("/dev/zero")
        self.assertEqual((code, out, error),
                         (2, "", "ringpress plan: /dev/zero: more than 64 MiB\n"))
        (self.folder / "good.json").write_text(GOOD)
        code, _, error = self.plan("--svg", self.folder / "none" / "a.svg",
                                   self.folder / "good.json")
        self.assertEqual(code, 1)
        self.assertIn("a.svg", error)

    def test_damaged_files_end_with_a_line_number_or_a_plan(self):
        draw = random.Random(6)
        refused = 0
        for _ in range(150):
            text = bytearray(GOOD.encode())
            for _ in range(draw.randrange(1, 4)):
                at = draw.randrange(len(text))
                text[at:at + draw.randrange(3)] = draw.choice(
                    [b"", b"\xff", b"0", b"9", b"-", b"[", b"}", b"\"", b",", b"\n", b"e9"])
            code, out, error = self.plan_text(bytes(text))
            if code == 0:
                self.assertIn("| plan |", out)
                continue
            refused += 1
            self.assertEqual((code, out), (2, ""), (bytes(text), error))
            self.assertRegex(error, r"^ringpress plan: JOB:\d+: .", bytes(text))
        self.assertGreater(refused, 50)

    def test_prints_the_plan_of_each_tensor(self):
        code, out, error = self.plan_text(GOOD)
        self.assertEqual((code, error), (0, ""))
        self.assertIn("| large | 40000.0 | hier | GPU |\n", out)
        self.assertIn("| tensor 1 | 0.4 | none, hier |  |\n", out)
        _, summary, _ = self.plan_text(GOOD, "--summary")
        self.assertTrue(out.startswith(summary))
        self.assertNotIn("| large |", summary)

    def test_a_name_is_one_cell_of_the_table(self):
        job = json.loads(GOOD)
        job["tensors"][0]["name"] = "a|b\nc"
        code, out, error = self.plan_text(json.dumps(job))
        self.assertEqual((code, error), (0, ""))
        self.assertIn("| a\\|b c | 40000.0 |", out)

    def test_what_is_noted_of_the_job_is_said(self):
        job = json.loads(GOOD)
        job["note"] = "does not show\nit \"well\""
        code, out, error = self.plan_text(json.dumps(job))
        self.assertEqual((code, error), (0, ""))
        self.assertIn('note: does not show it "well"\n', out)
        self.assertEqual(self.planned(json.dumps(job))["note"], job["note"])
        del job["note"]
        self.assertNotIn("note:", self.plan_text(json.dumps(job))[1])

    def test_a_job_on_host_memory_needs_no_compressor(self):
        job = json.loads(GOOD)
        del job["compressor"]
        job["between"]["gigabytes_per_second"] = 0.1
        planned = self.planned(json.dumps(job))
        self.assertEqual([tensor["way"] for tensor in planned["tensors"]], ["compressed", "none"])
        # Each of a machine's two ranks sends half of the bytes to the other machine, twice.
        self.assertAlmostEqual(planned["nothing_ms"], 800.2, delta=8)
        self.assertLess(planned["plan_ms"], planned["nothing_ms"] / 2)
        self.assertIsNone(planned["naive_ms"])
        self.assertGreater(planned["bound_ms"], 0)
        self.assertLessEqual(planned["bound_ms"], planned["plan_ms"])
        _, out, _ = self.plan_text(json.dumps(job), "--codec", "q8")
        self.assertIn("q8", out)
        self.assertIn("| large | 40000.0 | compressed | host |\n", out)
        code, out, error = self.plan_text(json.dumps(job), "--codec", "q99")
        self.assertEqual((code, out), (2, ""))
        self.assertIn('--codec q99: unknown codec "q99"', error)

    def test_options_that_would_make_no_difference_are_refused(self):
        code, out, error = self.plan_text(GOOD, "--codec", "q8")
        self.assertEqual((code, out), (2, ""))
        self.assertIn('JOB: --codec is for a job without "compressor"', error)
        job = json.loads(GOOD)
        del job["compressor"]
        code, out, error = self.plan_text(json.dumps(job), "--options", "tree")
        self.assertEqual((code, out), (2, ""))
        self.assertIn('JOB: --options tree is for a job with "compressor"', error)

    def test_every_search_and_set_of_options(self):
        ours = self.planned(GOOD)
        for arguments in (["--options", "tree"], ["--search", "paper"]):
            other = self.planned(GOOD, *arguments)
            self.assertLessEqual(other["plan_ms"], other["nothing_ms"])
            self.assertGreaterEqual(other["plan_ms"], other["bound_ms"])
        self.assertLess(ours["plan_ms"], ours["nothing_ms"])
        self.assertEqual(self.plan_text(GOOD, "--search", "best")[0], 2)

    def test_draws_the_step(self):
        picture = self.folder / "step.svg"
        self.planned(GOOD, "--svg", picture)
        root = xml.etree.ElementTree.parse(picture).getroot()
        texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("two & <three>", texts)
        for lane in ("backward", "GPU codec", "CPU codec", "wire"):
            self.assertEqual(texts.count(lane), 3)
        names = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertTrue(any(name.startswith("large, 40000000 bytes: ") for name in names))


class Jobs(Command):
    """What the paper found."""

    def job(self, path):
        tensors = json.loads(path.read_text())["tensors"]
        found = self.planned(path.read_text())
        self.assertEqual(len(found["tensors"]), len(tensors))
        return found, tensors

    def test_are_those_of_their_script(self):
        self.assertEqual(len(JOBS), 5)
        done = subprocess.run([sys.executable, "-B", PERF / "jobs" / "make_jobs.py", "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_plans_are_between_the_bound_and_the_rest(self):
        for path in JOBS:
            found, _ = self.job(path)
            self.assertLessEqual(found["bound_ms"], found["plan_ms"] * (1 + 1e-9), path)
            for other in ("nothing_ms", "everything_ms", "naive_ms"):
                self.assertLess(found["plan_ms"], found[other], path)

    def test_small_tensors_are_never_compressed(self):
        for path in JOBS:
            found, _ = self.job(path)
            self.assertGreater(found["compressed"], 0, path)
            self.assertGreater(found["smallest_compressed_bytes"], 500_000, path)

    def test_what_comes_before_a_bubble_is_never_compressed(self):
        before = 0
        for path in JOBS:
            found, _ = self.job(path)
            before += found["before_bubble"]
            self.assertEqual(found["before_bubble_compressed"], 0, path)
        self.assertGreater(before, 0)

    def test_to_compress_everything_naively_loses_on_the_lstm(self):
        found, _ = self.job(PERF / "jobs" / "lstm.json")
        self.assertGreater(found["naive_ms"], found["nothing_ms"])

    def test_equal_jobs_get_equal_plans(self):
        for path in JOBS:
            self.assertEqual(self.plan("--json", path), self.plan("--json", path))


class Beginnings(Command):
    """Jobs that nobody has to write: the template, and published models."""

    def test_the_template_is_a_job(self):
        code, template, error = self.plan("--template")
        self.assertEqual((code, error), (0, ""))
        code, out, error = self.plan_text(template)
        self.assertEqual((code, error), (0, ""))
        self.assertIn("5 tensors", out)
        piped = subprocess.run([PROGRAM, "plan", "--json", "/dev/stdin"], input=template.encode(), check=False,
                               capture_output=True, timeout=100)
        self.assertEqual(piped.returncode, 0, piped.stderr)
        self.assertEqual(len(json.loads(piped.stdout)["tensors"]), 5)

    def test_a_job_or_a_preset(self):
        for words in ((), ("--preset", "gpt2", JOBS[0])):
            code, out, error = self.plan(*words, "--step-ms", "100") if words else self.plan()
            self.assertEqual((code, out), (2, ""))
            self.assertIn("needs a JOB file or --preset", error)

    def test_presets_have_the_published_sizes(self):
        for preset, dtype, megabytes in (("gpt2", "fp32", 497.8), ("gpt2", "bf16", 248.9),
                                         ("bert-large", "fp32", 1340.6), ("resnet50", "fp32", 102.2),
                                         ("llama-7b", "bf16", 13476.8)):
            code, out, error = self.plan("--preset", preset, "--step-ms", "300", "--dtype", dtype, "--summary")
            self.assertEqual((code, error), (0, ""))
            self.assertIn(f", {megabytes} MB; forward 100.00 ms, backward 200.00 ms; q4", out)

    def test_a_preset_on_host_memory(self):
        code, out, error = self.plan("--preset", "resnet50", "--step-ms", "300", "--gpu", "none", "--gpus", "2",
                                     "--per-host", "1", "--net", "1gbit")
        self.assertEqual((code, error), (0, ""))
        self.assertIn("| fc.weight | 8192.0 |", out)
        self.assertLess(out.index("fc.weight"), out.index("conv1.weight"), "backward begins at the end")

    def test_mistakes_of_a_preset(self):
        words = {"--preset": "gpt2", "--step-ms": "100"}
        for changes, message in (({"--preset": "gpt"}, "--preset gpt: there is none (maybe gpt2?); there are gpt2, "),
                                 ({"--step-ms": "0"}, "--step-ms 0: --preset needs the milliseconds"),
                                 ({"--gpu": "h101"}, "--gpu h101: it is not in the table"),
                                 ({"--dtype": "int8"}, "--dtype int8: expected fp32"),
                                 ({"--gpu": "none", "--dtype": "bf16"}, "--dtype bf16: with --gpu none"),
                                 ({"--per-host": "3"}, "--gpus 16 --per-host 3: "),
                                 ({"--net": "fast"}, "--net fast: expected bits a second"),
                                 ({"--codec": "q44"}, "--codec q44: unknown codec"),
                                 ({"--codec": "powersgd"}, "--codec powersgd: how quick its kernels are")):
            code, out, error = self.plan(*[word for pair in (words | changes).items() for word in pair])
            self.assertEqual((code, out), (2, ""), changes)
            self.assertIn(message, error)
        code, _, error = self.plan("--gpu", "h100", JOBS[0])
        self.assertEqual(code, 2)
        self.assertIn("--preset", error)


# Without those whose codec no rule may name.
RULE_JOBS = [path for path in JOBS
             if not json.loads(path.read_text())["compressor"]["name"].startswith(("randk", "powersgd"))]


class Rules(Command):
    def rules_of(self, *words):
        path = self.folder / "rules.csv"
        code, out, error = self.plan("--rules", path, "--json", *words)
        self.assertEqual(code, 0, error)
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        return json.loads(out), list(csv.DictReader(lines)), path, error

    def test_the_librarys_parser_takes_them(self):
        for words in ([RULE_JOBS[0]], [RULE_JOBS[1]], ["--preset", "gpt2", "--step-ms", "300", "--net", "10gbit"]):
            _, rules, path, _ = self.rules_of(*words)
            self.assertTrue(rules)
            environment = {"PATH": os.environ["PATH"], "RINGPRESS_RULES": str(path)}
            done = subprocess.run([PROGRAM, "params"], capture_output=True, text=True, check=False, timeout=100,
                                  env=environment)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            path.write_text(path.read_text().replace("allreduce,0,", "allreduce,many,"))
            done = subprocess.run([PROGRAM, "params"], capture_output=True, text=True, check=False, timeout=100,
                                  env=environment)
            self.assertEqual(done.returncode, 1, "the parser is asked")

    def test_each_size_gets_what_the_plan_says(self):
        for path in RULE_JOBS:
            sizes = [tensor["bytes"] for tensor in json.loads(path.read_text())["tensors"]]
            plan, rules, _, error = self.rules_of(path)
            other = 0
            for size, tensor in zip(sizes, plan["tensors"]):
                matching = [rule for rule in rules if int(rule["min_bytes"]) <= size and
                            (rule["max_bytes"] == "-1" or size <= int(rule["max_bytes"]))]
                self.assertEqual(len(matching), 1, size)
                other += (matching[0]["codec"] != "none") != tensor["compressed"]
            self.assertEqual("get what others of their size get" in error, other > 0)
            if other:
                self.assertIn(f" {other} tensors get", error)

    def test_a_compressor_that_is_no_codec(self):
        code, _, error = self.plan_text(GOOD.replace('"name": "q4"', '"name": "zip"'), "--rules", self.folder / "r")
        self.assertEqual(code, 2)
        self.assertIn("/r: unknown codec \"zip\"", error)
        code, _, error = self.plan_text(GOOD.replace('"name": "q4"', '"name": "randk"'), "--rules", self.folder / "r")
        self.assertEqual(code, 2)
        self.assertIn('"randk" looks at whole tensors', error)
        code, _, error = self.plan_text(GOOD, "--rules", "/no/such/folder/r")
        self.assertEqual(code, 1)
        self.assertIn("/no/such/folder/r: No such file", error)


if __name__ == "__main__":
    unittest.main()
