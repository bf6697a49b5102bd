#!/usr/bin/env python3
"""`ringpress schedule` as people run it: the example, and files with mistakes.

usage: schedule_test.py RINGPRESS PERF_FOLDER
"""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from json_fields import leaves_of, value_at, variations, with_value

PERF = pathlib.Path(sys.argv.pop()).resolve()
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
EXAMPLE = (PERF / "gadget" / "cluster.json", PERF / "gadget" / "jobs.json")
SVG = "{http://www.w3.org/2000/svg}"
POLICIES = ("gadget", "fifo", "drf", "las")

CLUSTER = """{"name": "small", "resources": ["gpus", "memory_gb"],
 "racks": [
  {"name": "r0", "gigabits_per_second": 10},
  {"name": "r1", "gigabits_per_second": 10}
 ],
 "servers": [
  {"name": "s0", "rack": "r0", "gigabits_per_second": 10, "has": {"gpus": 2, "memory_gb": 64}},
  {"name": "s1", "rack": "r1", "gigabits_per_second": 10, "has": {"gpus": 2, "memory_gb": 64}}
 ]}
"""
JOBS = """{"jobs": [
 {"name": "a", "arrival": 0, "workers": 4, "needs": {"gpus": 1, "memory_gb": 8},
  "lifetime": {"gpus": 8}, "ring_gigabits_per_second": 4, "ratio": 0.5,
  "iterations_per_worker_slot": 100,
  "utility": {"kind": "sqrt", "scale": 1}},
 {"name": "b", "arrival": 1, "workers": 1, "needs": {"gpus": 2},
  "ring_gigabits_per_second": 4, "iterations_per_worker_slot": 100,
  "utility": {"kind": "sigmoid", "scale": 1, "steepness": 0.01, "midpoint": 500}}
]}
"""
NUMBER = "must be a whole number from "
# What is replaced, by what, and what the message then says after the file's name.
CLUSTER_MISTAKES = [
    ('"rack": "r1"', '"rack": "r9"', '8: servers[1].rack: there is no rack "r9"\n'),
    ('"r1", "gigabits_per_second": 10', '"r1"',
     '4: racks[1].gigabits_per_second: is missing; "name", "gigabits_per_second" are needed'),
    ('"r1", "gigabits_per_second": 10', '"r1", "gigabits_per_second": 0',
     "4: racks[1].gigabits_per_second: must be a number from 1e-6 to 1e6, not 0"),
    ('"gpus": 2', '"gpus": -2', f"7: servers[0].has.gpus: {NUMBER}0 to 2^31, not -2"),
    ('"gpus": 2', '"gpus": 1.5', f"7: servers[0].has.gpus: {NUMBER}0 to 2^31, not 1.5"),
    ('"gpus": 2', '"gpu": 2', '7: servers[0].has.gpu: is not known (maybe gpus?); allowed are '),
    ('"s1"', '"s0"', '8: servers[1].name: "s0" is there twice'),
    ('"name": "r1"', '"name": "r0"', '4: racks[1].name: "r0" is there twice'),
    ('"s1"', '"../s1"', "8: servers[1].name: must be letters, digits, "),
    ('"s1"', '""', "8: servers[1].name: must be letters, digits, "),
    ('"memory_gb"]', '"gpus"]', '1: resources: "gpus" is there twice'),
    ('"memory_gb"]', '"a", "b", "c", "d"]', "1: resources: must be 1 to 4 names, not 5"),
    ('"memory_gb"]', '7]', "1: resources: must be a list of texts"),
    ('"servers": [', '"servers": {}, "more": [', '6: more: is not known; allowed are '),
    (CLUSTER[CLUSTER.index("[\n  {\"name\": \"s0\""):], "[]}",
     "6: servers: must be a list of 1 to 10000 servers, not a list of 0"),
    (CLUSTER, "[]", "1: the cluster: must be an object, not a list of 0"),
    ("]}\n", "]\n", "10: not JSON: "),
]
JOBS_MISTAKES = [
    ('"workers": 4', '"workers": 5',
     "2: jobs[0].workers: 5 are more than the 4 that fit into the cluster"),
    ('"workers": 4, "needs": {"gpus": 1, "memory_gb": 8},\n  "lifetime": {"gpus": 8}, '
     '"ring_gigabits_per_second": 4',
     '"least_workers": 3, "workers": 4, "needs": {"gpus": 1},\n  "lifetime": {"gpus": 8}, '
     '"ring_gigabits_per_second": 21',
     "2: jobs[0].least_workers: 3 are more than the 2 of the largest ring of 10.5 Gb/s that the "),
    ('"gpus": 2}', '"gpus": 3}', "6: jobs[1].workers: 1 are more than the 0 that fit into the "),
    ('"workers": 4', '"workers": 0', f"2: jobs[0].workers: {NUMBER}1 to 1e4, not 0"),
    ('"workers": 4', '"least_workers": 5, "workers": 4',
     '2: jobs[0].least_workers: 5 are more than the 4 of "workers"'),
    ('"lifetime": {"gpus": 8}', '"lifetime": {"gpus": 0}',
     f"3: jobs[0].lifetime.gpus: {NUMBER}1 to 2^31, not 0"),
    ('"needs": {"gpus": 1, "memory_gb": 8},\n  "lifetime": {"gpus": 8}',
     '"needs": {"gpus": 1, "memory_gb": 8},\n  "lifetime": {"gpus": 8, "memory_gb": 7}',
     "3: jobs[0].lifetime.memory_gb: 7 are less than the 8 that a slot of 1 workers takes"),
    ('"workers": 4, "needs": {"gpus": 1, "memory_gb": 8},\n  "lifetime": {"gpus": 8}',
     '"least_workers": 3, "workers": 4, "needs": {"gpus": 1},\n  "lifetime": {"gpus": 2}',
     "3: jobs[0].lifetime.gpus: 2 are less than the 3 that a slot of 3 workers takes"),
    ('"arrival": 1', '"arrival": -1', f"6: jobs[1].arrival: {NUMBER}0 to 1e6, not -1"),
    ('"name": "b"', '"name": "a"', '6: jobs[1].name: "a" is there twice'),
    ('"gpus": 2}', '"memory_gb": 2}', '6: jobs[1].needs: must have at least 1 of "gpus"'),
    ('"ratio": 0.5', '"ratio": 1.5', "3: jobs[0].ratio: must be a number from 1e-9 to 1, not 1.5"),
    ('"kind": "sqrt"', '"kind": "root"',
     '5: jobs[0].utility.kind: must be sqrt, log, sigmoid or energy, not "root"'),
    ('"kind": "sqrt", ', "", '5: jobs[0].utility.kind: is missing; "kind", "scale" are needed'),
    ('"scale": 1}', '"scale": 1, "cost": 1}', "5: jobs[0].utility.cost: is not known; "),
    (', "midpoint": 500', "", "8: jobs[1].utility.midpoint: is missing; "),
    ('"iterations_per_worker_slot": 100,\n', '"iterations_per_worker_slot": 0,\n',
     "4: jobs[0].iterations_per_worker_slot: must be a number from 1e-9 to 1e12, not 0"),
    (JOBS, "{}", '1: jobs: is missing; "jobs" are needed'),
    ('{"jobs"', '{"slot_seconds": 60, "jobs"',
     '1: slot_seconds: makes no difference, as no job has a "model"'),
    ('{"jobs"', '{"name": 7, "jobs"', "1: name: must be a text, not 7"),
    ('"ring_gigabits_per_second": 4, "ratio": 0.5', '"ring_gigabits_per_second": 0, "ratio": 0.5',
     "3: jobs[0].ratio: makes no difference to a rate of 0"),
    ('"needs": {"gpus": 1, "memory_gb": 8},\n  "lifetime": {"gpus": 8}',
     '"needs": {"gpus": 1},\n  "lifetime": {"gpus": 8, "memory_gb": 7}',
     "3: jobs[0].lifetime.memory_gb: has no end, as a worker needs none of it"),
]


MODEL = """{"bytes_per_step": 100000000, "ratio_reduce_scatter": 0.3, "ratio_all_gather": 0.2,
   "link_gigabytes_per_second": 1, "codec_gigabytes_per_second": 10, "compute_ms": 30,
   "overhead_ms": 1}"""
WITH_MODEL = JOBS.replace('"ratio": 0.5,\n  "iterations_per_worker_slot": 100', f'"model": {MODEL}')
MODEL_MISTAKES = [
    ('"bytes_per_step": 100000000', '"bytes_per_step": -1',
     f"3: jobs[0].model.bytes_per_step: {NUMBER}1 to 2^53, not -1"),
    ('"compute_ms": 30,', "", "3: jobs[0].model.compute_ms: is missing; "),
    ('"slot_seconds": 60, ', "", '3: jobs[0].model: needs "slot_seconds" of the file'),
    ('"model"', '"ratio": 1, "model"', "3: jobs[0].ratio: is not known; "),
    ('"compute_ms": 30', '"compute_ms": 0', None),
]


def model_seconds(bytes_per_second, ratios=0.5):
    """A step of 4 workers with MODEL, over links of this rate."""
    return 75e6 * (ratios / bytes_per_second + 0.1e-9) + 0.031


# Files in which every field that there is matters: too little of everything.
VARIED_CLUSTER = """{"name": "varied", "note": "", "resources": ["gpus", "memory_gb"],
 "racks": [{"name": "r0", "gigabits_per_second": 5}, {"name": "r1", "gigabits_per_second": 5}],
 "servers": [
  {"name": "s0", "rack": "r0", "gigabits_per_second": 5, "has": {"gpus": 2, "memory_gb": 60}},
  {"name": "s1", "rack": "r1", "gigabits_per_second": 5, "has": {"gpus": 2, "memory_gb": 60}}]}"""
VARIED_JOBS = """{"name": "jobs", "note": "", "slot_seconds": 60, "jobs": [
 {"name": "a", "arrival": 0, "workers": 3, "least_workers": 3, "needs": {"gpus": 1, "memory_gb": 20},
  "lifetime": {"gpus": 18, "memory_gb": 360}, "ring_gigabits_per_second": 8, "ratio": 0.5,
  "iterations_per_worker_slot": 100, "utility": {"kind": "sqrt", "scale": 30}},
 {"name": "b", "arrival": 1, "workers": 3, "least_workers": 2, "needs": {"gpus": 1, "memory_gb": 20},
  "ring_gigabits_per_second": 4, "ratio": 0.5, "iterations_per_worker_slot": 90,
  "utility": {"kind": "sigmoid", "scale": 500, "steepness": 0.01, "midpoint": 400}},
 {"name": "c", "arrival": 2, "workers": 3, "needs": {"gpus": 1, "memory_gb": 20},
  "ring_gigabits_per_second": 4, "ratio": 0.5, "iterations_per_worker_slot": 90,
  "utility": {"kind": "energy", "scale": 5, "cost": 0.002}},
 {"name": "d", "arrival": 3, "workers": 4, "least_workers": 4, "needs": {"gpus": 1, "memory_gb": 20},
  "ring_gigabits_per_second": 4, "utility": {"kind": "log", "scale": 500}, "model":
  {"workers": 4, "codec": "q4", "bytes_per_step": 100000000, "ratio_reduce_scatter": 0.3,
   "ratio_all_gather": 0.2, "link_gigabytes_per_second": 1, "codec_gigabytes_per_second": 10,
   "compute_ms": 30, "overhead_ms": 1}}]}"""


class Schedule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *arguments):
        done = subprocess.run([PROGRAM, "schedule", *arguments], capture_output=True, check=False,
                              timeout=100)
        return done.returncode, done.stdout.decode(), done.stderr.decode(errors="replace")

    def schedule_text(self, cluster, jobs, *arguments):
        paths = []
        for name, text in (("CLUSTER", cluster), ("JOBS", jobs)):
            paths.append(self.folder / name)
            paths[-1].write_bytes(text if isinstance(text, bytes) else text.encode())
        code, out, error = self.run_program(*paths, *arguments)
        return code, out, error.replace(str(self.folder) + "/", "")

    def scheduled(self, *arguments):
        code, out, error = self.run_program("--json", *arguments)
        self.assertEqual((code, error), (0, ""))
        return json.loads(out)

    def test_mistakes_are_named(self):
        cases = [("CLUSTER", CLUSTER, mistake) for mistake in CLUSTER_MISTAKES]
        cases += [("JOBS", JOBS, mistake) for mistake in JOBS_MISTAKES]
        for name, good, (old, new, expected) in cases:
            self.assertIn(old, good)
            texts = {"CLUSTER": CLUSTER, "JOBS": JOBS, name: good.replace(old, new, 1)}
            code, out, error = self.schedule_text(texts["CLUSTER"], texts["JOBS"])
            self.assertEqual((code, out), (2, ""), (new, error))
            self.assertTrue(error.startswith(f"ringpress schedule: {name}:{expected}"),
                            (new, error))
            self.assertEqual(error.count("\n"), 1, error)

    def test_damaged_files_end_with_a_line_number_or_a_schedule(self):
        draw = random.Random(7)
        refused = 0
        for _ in range(100):
            texts = [CLUSTER, JOBS]
            which = draw.randrange(2)
            text = bytearray(texts[which].encode())
            for _ in range(draw.randrange(1, 4)):
                at = draw.randrange(len(text))
                text[at:at + draw.randrange(3)] = draw.choice(
                    [b"", b"\xff", b"0", b"9", b"-", b"[", b"}", b"\"", b",", b"\n", b"e9"])
            texts[which] = bytes(text)
            code, out, error = self.schedule_text(*texts, "--slots", "20")
            if code == 0:
                self.assertIn("| gadget |", out)
                continue
            refused += 1
            self.assertEqual((code, out), (2, ""), (bytes(text), error))
            # What fits into a damaged cluster may be the jobs' mistake.
            self.assertRegex(error, r"^ringpress schedule: (CLUSTER|JOBS):\d+: .", bytes(text))
        self.assertGreater(refused, 40)

    def test_files_that_are_not_there(self):
        for paths in (("none", EXAMPLE[1]), (EXAMPLE[0], "none"), (self.folder, EXAMPLE[1])):
            code, out, error = self.run_program(*paths)
            self.assertEqual((code, out), (2, ""), paths)
            self.assertRegex(error, "^ringpress schedule: .*: ")
        for paths in ((self.folder, EXAMPLE[1]), (EXAMPLE[0], self.folder)):
            code, out, error = self.run_program(*paths)
            self.assertEqual((code, out), (2, ""), paths)
            self.assertEqual(error, f"ringpress schedule: {self.folder}: Is a directory\n")

    def test_prints_jobs_and_placements(self):
        code, out, error = self.schedule_text(CLUSTER, JOBS, "--slots", "3")
        self.assertEqual((code, error), (0, ""))
        self.assertIn("2 servers in 2 racks, 4 gpus; 2 jobs\n", out)
        self.assertIn("| a | 0 | 2 | 8 | 800 | 28.28 |\n", out)
        self.assertIn("\nslot 0: 1 of 1 jobs\n  a: s0 x2, s1 x2\n", out)
        _, summary, _ = self.schedule_text(CLUSTER, JOBS, "--slots", "3", "--summary")
        self.assertTrue(out.startswith(summary))
        self.assertNotIn("slot 0", summary)

    def test_a_ratio_of_1_says_nothing_of_any_rate(self):
        job = '"ring_gigabits_per_second": 4, "ratio": 0.5'
        _, without, _ = self.schedule_text(CLUSTER, JOBS.replace(
            job, '"ring_gigabits_per_second": 0'))
        code, out, error = self.schedule_text(CLUSTER, JOBS.replace(
            job, '"ring_gigabits_per_second": 0, "ratio": 1'))
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(out, without)

    def test_a_measured_model_says_what_a_slot_is_worth(self):
        text = WITH_MODEL.replace('{"jobs"', '{"slot_seconds": 60, "jobs"')
        code, out, error = self.schedule_text(CLUSTER, text, "--slots", "3")
        self.assertEqual((code, error), (0, ""))
        # 4 workers at 4 Gb/s: 75 MB of which a quarter is sent in either half, and 31 ms.
        self.assertIn(f"| a | 0 | 2 | 8 | {8 * 60 / model_seconds(0.5e9):.0f} |", out)
        for old, new, expected in MODEL_MISTAKES:
            self.assertIn(old, text)
            code, _, error = self.schedule_text(CLUSTER, text.replace(old, new, 1))
            if expected is None:
                self.assertEqual(code, 0, error)
            else:
                self.assertEqual(code, 2)
                self.assertTrue(error.startswith(f"ringpress schedule: JOBS:{expected}"), error)

    def with_model(self, links, **changes):
        """What becomes of the job with the model alone, in one slot, over links of so many Gb/s."""
        cluster, jobs = json.loads(CLUSTER), json.loads(WITH_MODEL)
        for part in cluster["servers"] + cluster["racks"]:
            part["gigabits_per_second"] = links
        job = {**jobs["jobs"][0], "least_workers": 4}
        for name, value in changes.items():
            job[name if name in job else "model"] = (
                value if name in job else {**job["model"], name: value})
        jobs = {"slot_seconds": 60, "jobs": [job]}
        (self.folder / "c").write_text(json.dumps(cluster))
        (self.folder / "j").write_text(json.dumps(jobs))
        paths = (self.folder / "c", self.folder / "j", "--slots", "1")
        _, text, _ = self.run_program(*paths)
        return self.scheduled(*paths), text

    def check_way(self, found, way, gigabits, iterations):
        report, text = found
        ring, job = report["slots"][0]["rings"][0], report["jobs"][0]
        self.assertEqual(ring["way"], way)
        self.assertAlmostEqual(ring["reserved_gigabits_per_second"], gigabits, 6)
        self.assertAlmostEqual(job["iterations"] / iterations, 1, 6)
        self.assertEqual({entry["way"]: entry["slots"] for entry in job["ways"]},
                         {"less time": 0, "less reserved": 0, way: 1})
        self.assertIn(f"  a: s0 x2, s1 x2 ({way})\n", text)

    def test_compressed_jobs_are_faster_or_reserve_less(self):
        # Links that carry the rate: the job is faster than it would be uncompressed.
        fast = 4 * 60 / model_seconds(0.5e9)
        self.check_way(self.with_model(10), "less time", 4, fast)
        plain = {"ratio_reduce_scatter": 1, "ratio_all_gather": 1}
        exact, text = self.with_model(10, **plain)
        self.assertAlmostEqual(exact["jobs"][0]["iterations"] * model_seconds(0.5e9, 2), 4 * 60, 3)
        self.assertLess(exact["jobs"][0]["iterations"], 0.7 * fast)
        self.assertNotIn("way", exact["slots"][0]["rings"][0])
        self.assertIn("| no choice |", text)
        # Links that do not: it reserves a quarter, and takes as long as uncompressed ones would.
        self.check_way(self.with_model(2), "less reserved", 1, 4 * 60 / model_seconds(0.125e9))

    def test_a_ring_is_no_faster_than_the_link_of_its_model(self):
        slow = self.with_model(10, link_gigabytes_per_second=0.25)
        self.check_way(slow, "less time", 2, 4 * 60 / model_seconds(0.25e9))
        # Nothing reserved: the model's link is all that is known.
        free, text = self.with_model(10, ring_gigabits_per_second=0)
        self.assertAlmostEqual(free["jobs"][0]["iterations"] * model_seconds(1e9), 4 * 60, 3)
        self.assertIn("| no choice |", text)

    def test_the_choice_is_what_all_jobs_gain_most_by(self):
        # Two such jobs share links of 5 Gb/s: together they gain more if one makes room.
        cluster, jobs = json.loads(CLUSTER), json.loads(WITH_MODEL)
        for part in cluster["servers"] + cluster["racks"]:
            part["gigabits_per_second"] = 5
        for server in cluster["servers"]:
            server["has"]["gpus"] = 2
        job = {**jobs["jobs"][0], "workers": 2, "least_workers": 2, "lifetime": {"gpus": 200}}
        job["needs"] = {"gpus": 1, "memory_gb": 40}  # One on a server of 64 and more than one job.
        for server in cluster["servers"]:
            server["has"]["memory_gb"] = 64
        other = {**job, "name": "other", "needs": {"gpus": 1, "memory_gb": 20}}
        (self.folder / "c").write_text(json.dumps(cluster))
        (self.folder / "j").write_text(json.dumps({"slot_seconds": 60, "jobs": [job, other]}))
        for policy in POLICIES:
            found = self.scheduled(self.folder / "c", self.folder / "j", "--slots", "1",
                                   "--policy", policy)
            rings = found["slots"][0]["rings"]
            used = sum(ring["reserved_gigabits_per_second"] for ring in rings)
            self.assertEqual(len(rings), 2, policy)
            self.assertAlmostEqual(used, 5, 6, policy)
            self.assertEqual(sorted(ring["way"] for ring in rings),
                             ["less reserved", "less time"], policy)

    def test_no_field_is_inert(self):
        cluster, jobs = json.loads(VARIED_CLUSTER), json.loads(VARIED_JOBS)
        before = self.result_of(cluster, jobs)
        self.assertEqual(before[0], 0, before)
        for which, document in ((0, cluster), (1, jobs)):
            for path in sorted(leaves_of(document), key=str):
                if path[-1] == "note":  # Says so: free text.
                    continue
                with self.subTest(path=path):
                    self.assertTrue(any(self.makes_a_difference(which, cluster, jobs, path, value,
                                                                before)
                                        for value in variations(value_at(document, path))),
                                    f"{path} makes no difference")

    def makes_a_difference(self, which, cluster, jobs, path, value, before):
        files = [cluster, jobs]
        files[which] = with_value(files[which], path, value)
        after = self.result_of(*files)
        self.assertIn(after[0], (0, 2), after)
        if isinstance(value, str) or path[-2:] == ("model", "workers"):
            return after != before  # Names are in the report.
        return after[0] != 0 or after[2] != before[2]

    def result_of(self, cluster, jobs):
        """The exit status, all that is printed, and who runs where and how."""
        (self.folder / "c").write_text(json.dumps(cluster))
        (self.folder / "j").write_text(json.dumps(jobs))
        code, out, error = self.run_program("--json", self.folder / "c", self.folder / "j",
                                            "--slots", "12")
        if code != 0:
            return code, error, None
        report = json.loads(out)
        rings = [[(ring["job"], str(ring["ring"]), ring.get("way")) for ring in slot["rings"]]
                 for slot in report["slots"]]
        return code, out, (rings, report["utility"])

    def test_compression_makes_room_on_links(self):
        # 4 Gb/s at a ratio of 0.5 go through links of 2 Gb/s, uncompressed they do not.
        narrow = CLUSTER.replace('"gigabits_per_second": 10', '"gigabits_per_second": 2')
        for ratio, workers in (("0.5", 4), ("1", 2)):
            jobs = JOBS.replace('"ratio": 0.5', f'"ratio": {ratio}')
            (self.folder / "c").write_text(narrow)
            (self.folder / "j").write_text(jobs)
            found = self.scheduled(self.folder / "c", self.folder / "j", "--slots", "1")
            ring = found["slots"][0]["rings"][0]["ring"]
            self.assertEqual(sum(share["workers"] for share in ring), workers, ratio)

    def test_writes_what_starts_the_jobs(self):
        code, _, error = self.schedule_text(CLUSTER, JOBS, "--launch", self.folder, "--slot", "0")
        self.assertEqual((code, error), (0, ""))
        self.assertEqual((self.folder / "a.rankfile").read_text(),
                         "rank 0=s0 slot=0\nrank 1=s0 slot=1\n"
                         "rank 2=s1 slot=0\nrank 3=s1 slot=1\n")
        self.assertEqual((self.folder / "a.hosts").read_text(), "s0\ns0\ns1\ns1\n")
        self.assertEqual((self.folder / "a.torchrun").read_text().splitlines()[2:],
                         ["# on s1", "CUDA_VISIBLE_DEVICES=0,1 torchrun --nnodes=2 --node_rank=1 "
                          "--nproc_per_node=2 --master_addr=s0 --master_port=29500 \"$@\""])
        self.assertFalse((self.folder / "b.rankfile").exists())
        code, out, error = self.schedule_text(CLUSTER, JOBS, "--launch", self.folder, "--slot", "999")
        self.assertEqual((code, out), (2, ""))
        self.assertRegex(error, "^ringpress schedule: --slot 999: there are [0-9]+ slots\n$")
        code, _, error = self.schedule_text(CLUSTER, JOBS, "--launch", self.folder / "new")
        self.assertEqual((code, error), (0, ""))
        self.assertTrue((self.folder / "new" / "a.rankfile").exists())
        code, _, error = self.schedule_text(CLUSTER, JOBS, "--launch", self.folder / "no" / "where")
        self.assertEqual(code, 1)
        self.assertIn("no/where: ", error)

    def test_jobs_of_a_slot_keep_out_of_each_others_way(self):
        small = JOBS.replace('"workers": 4', '"workers": 1')
        twice = json.loads(small)
        twice["jobs"] = [dict(twice["jobs"][0], name=name) for name in ("x", "y")]
        cluster = json.loads(CLUSTER)
        cluster["servers"] = cluster["servers"][:1]
        code, _, error = self.schedule_text(json.dumps(cluster), json.dumps(twice), "--launch",
                                            self.folder / "plan")
        self.assertEqual((code, error), (0, ""))
        files = [(self.folder / "plan" / name).read_text()
                 for name in ("x.rankfile", "y.rankfile", "x.torchrun", "y.torchrun")]
        self.assertEqual(files[:2], ["rank 0=s0 slot=0\n", "rank 0=s0 slot=1\n"])
        self.assertIn("--master_port=29500", files[2])
        self.assertIn("--master_port=29501", files[3])
        self.assertIn("\nCUDA_VISIBLE_DEVICES=0 torchrun ", files[2])
        self.assertIn("\nCUDA_VISIBLE_DEVICES=1 torchrun ", files[3])

    def devices_of(self, resources, needs):
        """What each job's torchrun line shows of one server's 8 devices, and no more than that."""
        cluster = {"resources": resources, "racks": [{"name": "r", "gigabits_per_second": 10}],
                   "servers": [{"name": "s", "rack": "r", "gigabits_per_second": 10,
                                "has": dict.fromkeys(resources, 8)}]}
        jobs = [{"name": f"j{i}", "arrival": 0, "workers": workers, "least_workers": workers,
                 "needs": dict(zip(resources, amounts)), "ring_gigabits_per_second": 0,
                 "iterations_per_worker_slot": 1, "utility": {"kind": "sqrt", "scale": 1}}
                for i, (workers, *amounts) in enumerate(needs)]
        code, _, error = self.schedule_text(json.dumps(cluster), json.dumps({"jobs": jobs}),
                                            "--launch", self.folder / "plan")
        self.assertEqual((code, error), (0, ""))
        lines = [(self.folder / "plan" / f"j{i}.torchrun").read_text().splitlines()
                 for i in range(len(needs))]
        return [line.split("torchrun ")[0] for _, line in lines]

    def test_jobs_of_a_server_have_devices_of_their_own(self):
        found = self.devices_of(["gpus"], [(1, 4), (2, 1), (1, 2)])
        devices = [[int(n) for n in line.removeprefix("CUDA_VISIBLE_DEVICES=").split(",")]
                   for line in found]
        self.assertEqual([len(numbers) for numbers in devices], [4, 2, 2])
        self.assertEqual(sorted(sum(devices, [])), list(range(8)))
        # Of another resource there is no number; of no GPUs there is none to see.
        self.assertEqual(self.devices_of(["cores"], [(2, 1), (1, 2)]), ["", ""])
        found = self.devices_of(["cores", "gpus"], [(2, 1, 0), (2, 1, 4)])
        self.assertEqual(found, ["CUDA_VISIBLE_DEVICES= ",
                                 "CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 "])

    def test_draws_placements_and_loads(self):
        placements, loads = self.folder / "placements.svg", self.folder / "loads.svg"
        self.scheduled(*EXAMPLE, "--slots", "8", "--svg", placements, "--load-svg", loads)
        root = xml.etree.ElementTree.parse(placements).getroot()
        names = [node.text for node in root.iter(f"{SVG}title")]
        self.assertIn("node0", names)
        self.assertTrue(any(name.startswith("bert-0, slots 0 to ") for name in names), names)
        root = xml.etree.ElementTree.parse(loads).getroot()
        self.assertEqual(len(list(root.iter(f"{SVG}polyline"))), len(POLICIES))
        texts = [node.text for node in root.iter(f"{SVG}text")]
        for policy in POLICIES:
            self.assertIn(policy, texts)

    def test_the_example_is_that_of_its_script(self):
        done = subprocess.run([sys.executable, "-B", PERF / "gadget" / "make_example.py", "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_the_tables_are_those_of_the_results(self):
        done = subprocess.run([sys.executable, "-B", PERF / "gadget" / "report.py", "--check"],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_gadget_gains_most_on_the_example(self):
        # While there are more jobs than GPUs; later all have had what they may use.
        found = {policy: self.scheduled(*EXAMPLE, "--policy", policy, "--slots", "8")
                 for policy in POLICIES}
        best = max(POLICIES, key=lambda policy: found[policy]["utility"])
        self.assertEqual(best, "gadget")
        for policy in POLICIES:
            self.assertEqual(found[policy]["policy"], policy)
            self.check_placements(found[policy])
        self.assertEqual(self.run_program(*EXAMPLE, "--policy", "lottery")[0], 2)
        self.assertEqual(self.run_program(*EXAMPLE, "--slots", "0")[0], 2)

    def test_the_linear_programme_is_a_check(self):
        code, out, error = self.run_program(*EXAMPLE, "--policy", "gadget-lp", "--slots", "8")
        if code == 2:
            self.assertEqual(error, "ringpress schedule: gadget-lp: this program was built without "
                                    "Clp (Debian: coinor-libclp-dev)\n")
            return
        self.assertEqual((code, error), (0, ""))
        line = next(line for line in out.splitlines() if line.startswith("of the linear programme"))
        rounded, fast = (float(number) for number in re.findall(r"([0-9.]+) %", line))
        self.assertGreater(fast, 98)
        self.assertLessEqual(fast, 100.001)
        self.assertGreater(rounded, 60)
        self.check_placements(self.scheduled(*EXAMPLE, "--policy", "gadget-lp", "--slots", "8"))

    def test_a_linear_programme_that_takes_too_long_is_left(self):
        late = (*EXAMPLE, "--policy", "gadget-lp", "--slots", "8", "--lp-seconds", "0")
        code, out, error = self.run_program(*late)
        if code == 2:
            self.assertIn("was built without Clp", error)
            return
        self.assertRegex(out, r"took more than 0 s, which have the fast solver's rings: [1-8]\n")
        self.assertNotIn("of the linear programme's bounds", out)
        fast = self.scheduled(*EXAMPLE, "--slots", "8")
        self.assertEqual(self.scheduled(*late)["slots"], fast["slots"])

    def test_options_that_are_no_use_are_refused(self):
        for words, message in (
                (("--policy", "gadget-lp", "--lp-seconds", "nan"), "--lp-seconds: "),
                (("--policy", "gadget-lp", "--lp-seconds", "inf"), "--lp-seconds: "),
                (("--policy", "gadget-lp", "--lp-seconds", "-1"), "--lp-seconds: "),
                (("--lp-seconds", "3"), "--lp-seconds is for --policy gadget-lp"),
                (("--slot", "1"), "--slot requires --launch")):
            code, out, error = self.run_program(*EXAMPLE, *words)
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn(message, error)

    def check_placements(self, found):
        """No server has more workers than GPUs; workers add up to what each job is said to have."""
        servers = {server["name"]: server
                   for server in json.loads(EXAMPLE[0].read_text())["servers"]}
        jobs = {job["name"]: job for job in json.loads(EXAMPLE[1].read_text())["jobs"]}
        totals = dict.fromkeys(jobs, 0)
        for number, slot in enumerate(found["slots"]):
            used = dict.fromkeys(servers, 0)
            for ring in slot["rings"]:
                job = jobs[ring["job"]]
                workers = sum(share["workers"] for share in ring["ring"])
                self.assertLessEqual(workers, job["workers"])
                self.assertLessEqual(job["arrival"], number)
                totals[ring["job"]] += workers
                for share in ring["ring"]:
                    used[share["server"]] += share["workers"] * job["needs"]["gpus"]
            for name, gpus in used.items():
                self.assertLessEqual(gpus, servers[name]["has"]["gpus"])
        for job in found["jobs"]:
            self.assertEqual(totals[job["name"]], job["worker_slots"])
            limit = jobs[job["name"]]
            self.assertLessEqual(job["worker_slots"] * limit["needs"]["gpus"],
                                 limit["lifetime"]["gpus"])

    def test_the_templates_are_files(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for name in ("cluster", "jobs"):
                done = subprocess.run([PROGRAM, "schedule", "--template", name], capture_output=True, check=False,
                                      timeout=100)
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                paths.append(pathlib.Path(folder) / name)
                paths[-1].write_bytes(done.stdout)
            done = subprocess.run([PROGRAM, "schedule", "--json", "--slots", "3", *paths], capture_output=True,
                                  check=False, timeout=100)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            self.assertEqual([job["name"] for job in json.loads(done.stdout)["jobs"]], ["small", "traced"])
            self.assertTrue(all(job["worker_slots"] > 0 for job in json.loads(done.stdout)["jobs"]))
        for words in ((), ("--template", "job")):
            done = subprocess.run([PROGRAM, "schedule", *words], capture_output=True, check=False, timeout=100)
            self.assertEqual((done.returncode, done.stdout), (2, b""))
            self.assertIn(b"cluster", done.stderr)


if __name__ == "__main__":
    unittest.main()
