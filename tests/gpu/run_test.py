#!/usr/bin/env python3
"""What needs neither a GPU nor CUDA: arguments, NCCL's log, judgements."""
import copy
import os
import pathlib
import subprocess
import tempfile
import unittest

import bench
import jobs
import kernels
import machine
import nccl_log
import plugin

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = """\
node:120:120 [0] NCCL INFO NET/Plugin: Loaded net plugin ringpress (v11)
node:120:120 [0] NCCL INFO NET/Plugin: Loaded collnet plugin ringpress (v11)
node:120:120 [0] NCCL INFO Successfully loaded external network plugin libnccl-net-ringpress.so
node:120:120 [0] NCCL INFO PROFILER/Plugin: Loaded ringpress (v5)
node:120:120 [0] NCCL INFO Initialized NET plugin ringpress
node:120:120 [0] NCCL INFO Assigned NET plugin ringpress to comm
node:120:120 [0] NCCL INFO Using network ringpress
node:120:121 [0] NCCL INFO TUNER/Plugin: Using ringpress (v5)
node:120:121 [0] NCCL INFO CollNet 00/0 : 0 [receive] via COLLNET/ringpress/0
node:120:121 [0] NCCL INFO CollNet 00/1 : 0 [send] via COLLNET/ringpress/0
node:121:121 [0] NCCL INFO Using network ringpress
node:121:122 [0] NCCL INFO CollNet 00/0 : 1 [receive] via COLLNET/ringpress/0/GDRDMA(PCI)
node:121:122 [0] NCCL INFO CollNet 00/1 : 1 [send] via COLLNET/ringpress/0
node:120:121 [0] NCCL INFO ringpress: 7.8.9: CollNet among 2 nodes: RINGPRESS=on, codec q4
node:120:120 [0] NCCL INFO Connected Collnet Chains  [0] -1->0->2 [1] -1->0->2
node:120:120 [0] NCCL INFO AllReduce: 4 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
node:120:120 [0] NCCL INFO AllReduce: 4194304 Bytes -> Algo COLLNET_CHAIN proto SIMPLE channel{Lo..Hi}={0..3}
"""


class Log(unittest.TestCase):
    def test_the_lines_of_nccl(self):
        facts = nccl_log.read_facts(SAMPLE)
        self.assertEqual(nccl_log.missing_plugins(facts, 2), [])
        self.assertEqual(facts.net, {("ringpress", "v11")})
        self.assertEqual(facts.chains, 1)
        self.assertEqual(facts.channels[("AllReduce", 4 << 20)], 4)
        self.assertEqual(nccl_log.wrong_algorithm(facts, 4 << 20, True), [])
        self.assertEqual(nccl_log.wrong_algorithm(facts, 4, False), [])
        self.assertEqual(len(facts.ours), 1)
        direct = nccl_log.read_facts("node:1:1 [0] NCCL INFO rank 0 Connected CollNet\n")
        self.assertEqual(direct.chains, 1)

    def test_the_older_words_for_the_same(self):
        text = SAMPLE.replace("Using ringpress (v5)", "Using tuner plugin ringpress") \
            .replace("PROFILER/Plugin: Loaded ringpress (v5)", "PROFILER/Plugin: loaded ringpress")
        self.assertEqual(nccl_log.missing_plugins(nccl_log.read_facts(text), 2), [])

    def test_each_missing_line_is_noticed(self):
        for lost in ("Loaded net", "Loaded collnet", "TUNER", "PROFILER", "1 [send]",
                     "0 [receive]"):
            lines = [line for line in SAMPLE.splitlines() if lost not in line]
            facts = nccl_log.read_facts("\n".join(lines))
            self.assertEqual(len(nccl_log.missing_plugins(facts, 2)), 1, lost)

    def test_another_network_and_a_refusal_are_noticed(self):
        socket = SAMPLE.replace("Using network ringpress", "Using network Socket")
        self.assertIn("Socket", nccl_log.missing_plugins(nccl_log.read_facts(socket), 2)[0])
        refused = SAMPLE + "\nnode:120:121 [0] transport.cc:399 NCCL WARN Cannot initialize " \
            "CollNet, using point-to-point network instead\n"
        facts = nccl_log.read_facts(refused)
        self.assertIn("declined", nccl_log.missing_plugins(facts, 2)[0])
        self.assertEqual(len(facts.warnings), 1)

    def test_another_algorithm_is_noticed(self):
        facts = nccl_log.read_facts(SAMPLE.replace("COLLNET_CHAIN", "RING"))
        self.assertTrue(nccl_log.wrong_algorithm(facts, 4 << 20, True))
        both = nccl_log.read_facts(SAMPLE + SAMPLE.replace("COLLNET_CHAIN", "TREE"))
        self.assertTrue(nccl_log.wrong_algorithm(both, 4 << 20, True))
        self.assertTrue(nccl_log.wrong_algorithm(both, 4 << 20, False))
        self.assertTrue(nccl_log.wrong_algorithm(facts, 8, True))


class Judgement(unittest.TestCase):
    def setUp(self):
        self.job = jobs.Job("q4", 2, [])
        row = {"size": 4 << 20, "type": "float", "redop": "sum",
               "out_of_place": {"nwrong": 0}, "in_place": {"nwrong": 0},
               "ringpress": {"identical": True, "maxerr": 0.5, "relerr": 0.1,
                             "largest_exact": 6.0, "largest_inputs": 8.0}}
        counts = {"calls": 9, "compressed_calls": 8, "unbiased_calls": 0, "raw_bytes": 800,
                  "wire_bytes": 100}
        self.outcome = jobs.Outcome(0, 1.0, "", {"results": [row]}, SAMPLE, [counts])

    def wrong(self, judge, change):
        outcome = copy.deepcopy(self.outcome)
        change(outcome, outcome.results["results"][0])
        return judge(self.job, outcome)[0]

    def test_a_right_result_passes(self):
        self.assertEqual(self.wrong(plugin.judge_q4, lambda outcome, row: None), [])

    def test_each_fault_is_noticed(self):
        def change_found(name, value):
            return lambda outcome, row: row["ringpress"].update({name: value})
        bound = plugin.q4_bound(self.outcome.results["results"][0], 2, False)
        self.assertLess(bound, 1.7)
        for change in (change_found("identical", False), change_found("maxerr", bound * 1.01),
                       change_found("maxerr", 0.0), change_found("maxerr", "nan"),
                       lambda outcome, row: row["in_place"].update(nwrong=1),
                       lambda outcome, row: outcome.statistics[0].update(compressed_calls=0)):
            self.assertEqual(len(self.wrong(plugin.judge_q4, change)), 1)

    def test_an_error_beyond_the_nearest_forms_is_the_unbiased_ones_alone(self):
        def change(unbiased):
            def apply(outcome, row):
                row["ringpress"]["maxerr"] = 1.8
                outcome.statistics[0]["unbiased_calls"] = unbiased
            return apply
        self.assertEqual(self.wrong(plugin.judge_q4, change(3)), [])
        self.assertEqual(len(self.wrong(plugin.judge_q4, change(0))), 1)

    def test_error_feedback_has_a_bound_of_its_own(self):
        row = self.outcome.results["results"][0]
        bound = plugin.q4_bound(row, 2, False, feeds_back=True)
        self.assertLess(2 * plugin.q4_bound(row, 2, False), bound)
        for factor, wrong in ((0.99, 0), (1.01, 1)):
            def change(outcome, row, error=bound * factor):
                row["ringpress"]["maxerr"] = error
            self.assertEqual(len(self.wrong(plugin.judge_fed_back, change)), wrong)

    def test_small_calls_must_stay_alone(self):
        wrong = self.wrong(plugin.judge_untouched, lambda outcome, row: None)
        self.assertEqual(len(wrong), 3)  # By CollNet, compressed, and lossy.


class Bench(unittest.TestCase):
    def outcome(self, compressed, identical=True, status=0):
        row = {"out_of_place_per_iter": {"times_us": [1000.0, 3000.0]},
               "ringpress": {"identical": identical}}
        counts = {"calls": 9, "compressed_calls": compressed, "unbiased_calls": 0, "raw_bytes": 1,
                  "wire_bytes": 1}
        return jobs.Outcome(status, 1.0, "why", {"results": [row]}, "", [counts])

    def test_each_fault_is_noticed(self):
        self.assertEqual(bench.judge("q4", self.outcome(5)), ([], [1000.0, 3000.0]))
        self.assertEqual(bench.judge("none", self.outcome(0)), ([], [1000.0, 3000.0]))
        for setting, outcome in (("q4", self.outcome(0)), ("none", self.outcome(5)),
                                 ("q4", self.outcome(5, identical=False)),
                                 ("q4", self.outcome(5, status=1))):
            self.assertEqual(len(bench.judge(setting, outcome)[0]), 1)

    def test_topk_beside_torch(self):
        rates = [{**bench.TOPK, "seconds": 0.5}, {**bench.TOPK, "operation": "hop", "seconds": 1}]
        self.assertEqual(bench.compare_topk(rates, 0, "warning\n4.0\n")["times_torch"], 8)
        for wrong in ((rates, 1, "4.0"), (rates, 0, "No module named torch"), (rates, 0, ""),
                      (rates[1:], 0, "4.0")):
            self.assertIsNone(bench.compare_topk(*wrong))
        compile(bench.TORCH_TOPK % 100, "snippet", "exec")

    def test_figures_are_of_medians(self):
        figures = bench.figures_of({"none": [9000.0, 8000.0, 1.0], "q4": [2000.0]})
        self.assertEqual(figures["median_ms"], {"none": 8.0, "q4": 2.0})
        self.assertEqual(figures["times_faster"], 4)
        self.assertNotIn("times_faster", bench.figures_of({"none": [1.0], "q4": []}))


class Kernels(unittest.TestCase):
    def test_bytes_that_differ_are_noticed(self):
        good = {"specification": "q4", "cases": 3, "failed": 0}
        bad = {"specification": "q8", "cases": 3, "failed": 1, "first_failure": "other bytes"}
        found = {"specifications": [good], "cases": 3, "failed": 0}
        self.assertEqual(kernels.judge_bytes(found)[0], [])
        found = {"specifications": [good, bad], "cases": 6, "failed": 1}
        self.assertIn("other bytes", kernels.judge_bytes(found)[0][0])
        for nothing in (None, {"specifications": [], "cases": 0, "failed": 0}):
            self.assertEqual(len(kernels.judge_bytes(nothing)[0]), 1)

    def test_rates_without_a_result_or_with_an_error_fail(self):
        self.assertEqual(kernels.judge_rates({"error": "", "rates": []})[0], [])
        for found in (None, {"error": "CUDA", "rates": []}):
            self.assertEqual(len(kernels.judge_rates(found)[0]), 1)

    def run_area(self, words):
        setup = jobs.Setup(pathlib.Path("/nowhere"), None)
        area = kernels.Area(lambda _: [kernels.Check("x", "y", words, 20)], kernels.judge_bytes)
        entries = []
        area.run(setup, 0, None, lambda check: entries.append(check))
        return entries[0]

    def test_a_program_that_fails_or_is_missing_does_not_pass(self):
        answer = '{"specifications": [], "cases": 1, "failed": 0}'
        self.assertEqual(self.run_area(["echo", "a", answer, "b"])["status"], "passed")
        self.assertEqual(self.run_area(["sh", "-c", f"echo '{answer}'; exit 9"])["status"],
                         "failed")
        self.assertEqual(self.run_area(["/no/such/program"])["status"], "skipped")


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *arguments, **variables):
        done = subprocess.run([HERE / "run.sh", *map(str, arguments)], capture_output=True,
                              text=True, check=False, timeout=280,
                              env={**os.environ, **{k: str(v) for k, v in variables.items()}})
        return done.returncode, done.stdout, done.stderr

    def test_wrong_arguments(self):
        for arguments, word in ((["kernals"], "kernals"), (["--repetitions", "0"], "at least 1"),
                                (["--no-such"], "no-such"), (["--ranks", "1"], "--ranks"),
                                (["--seconds", "0"], "at least 1"),
                                (["--nccl", self.folder / "x"], "no NCCL")):
            status, _, error = self.run_script(*arguments)
            self.assertEqual(status, 2, error)
            self.assertIn(word, error)

    def test_dry_run_needs_nothing_and_runs_nothing(self):
        for area in (["plugin"], ["nccl"], ["torch"]):
            status, text, _ = self.run_script("--dry-run", "--build", self.folder,
                                              "--results", self.folder / "results", *area)
            self.assertEqual(status, 0)
            commands = [line for line in text.splitlines() if not line.startswith("#")]
            if area == ["plugin"]:
                self.assertEqual(len(commands), len(list(plugin.all_checks())))
                for line in commands:
                    self.assertIn("--host-per-rank", line)
                self.assertEqual(sum("NCCL_NET_PLUGIN=none" in line for line in commands), 6)
                self.assertEqual(sum("--rate 10gbit" in line for line in commands), 4)
            if area == ["nccl"]:
                for line in commands:
                    self.assertIn("LD_PRELOAD=", line)
                self.assertEqual(sum("stream_client" in line for line in commands), 12)
            if area == ["torch"]:
                self.assertEqual(["LD_PRELOAD=" in line for line in commands], [False, True, True])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_dry_run_of_the_kernels(self):
        for area, count in (("kernels", 1), ("sanitize", len(kernels.TOOLS))):
            status, text, _ = self.run_script("--dry-run", "--build", self.folder, area)
            self.assertEqual(status, 0)
            commands = [line for line in text.splitlines() if not line.startswith("#")]
            self.assertEqual(len(commands), count)
            for line in commands:
                self.assertIn(f"{self.folder}/lib/device_kernels", line)

    def test_dry_run_of_the_bench(self):
        status, text, _ = self.run_script("--dry-run", "--build", self.folder, "bench")
        self.assertEqual(status, 0)
        commands = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertIn(f"{self.folder}/lib/device_kernels bench", commands[0])
        self.assertEqual(len(commands), 2 + len(bench.RATES) * len(bench.SETTINGS))
        for rate in bench.RATES:
            of_rate = [line for line in commands if f"--rate {rate}" in line]
            self.assertEqual(["RINGPRESS=off" in line for line in of_rate], [True, False])
            for line in of_rate:
                self.assertIn("libringpress-preload.so", line)
                self.assertNotIn("NCCL_SOCKET_IFNAME=lo", line)  # Links are shaped on others.

    def test_ranks_and_seconds_are_chosen(self):
        status, text, _ = self.run_script("--dry-run", "--build", self.folder, "--ranks", "3",
                                          "--seconds", "7", "nccl", "kernels")
        self.assertEqual(status, 0)
        self.assertIn("--ranks 3", text)
        self.assertNotIn("--ranks 2", text)
        self.assertIn("device_kernels check 7", text)

    def test_kernels_need_their_program_and_no_nccl(self):
        status, _, error = self.run_script("--build", self.folder, "kernels", PATH="/usr/bin:/bin")
        self.assertEqual(status, 2)
        self.assertIn("device_kernels", error)

    def test_a_missing_build_is_named(self):
        nccl = self.folder / machine.NCCL
        nccl.write_bytes(b"")
        status, _, error = self.run_script("--build", self.folder, "--nccl", nccl, "plugin")
        self.assertEqual(status, 2)
        self.assertIn("all_reduce_perf_cuda", error)

    def test_where_nccl_is_looked_for(self):
        def folder(name):
            path = self.folder / name
            path.mkdir(parents=True)
            (path / machine.NCCL).write_bytes(b"")
            return path
        build, loaded = self.folder / "build", folder("loaded")
        python, wheel = self.folder / "bin", folder(f"lib/python3.12/site-packages/{machine.WHEEL}")
        python.mkdir()
        (python / "python3").symlink_to("/bin/true")
        own = self.folder / "own"
        own.mkdir()
        (own / "libringpress.so.0").write_bytes(b"")
        (own / machine.NCCL).symlink_to("libringpress.so.0")  # This library is not taken for NCCL.
        environment = {"LD_LIBRARY_PATH": f"{own}:{loaded}", "PATH": str(python)}
        self.assertEqual(machine.find_nccl(build, environment), loaded)
        candidates = list(machine.nccl_candidates(build, {"PATH": str(python)}))
        self.assertIn(wheel / machine.NCCL, candidates)
        recorded = folder("recorded")
        build.mkdir()
        (build / "CMakeCache.txt").write_text(
            f"RINGPRESS_NCCL_LIBRARY:FILEPATH={recorded}/libnccl.so\n")
        self.assertEqual(machine.find_nccl(build, environment), recorded)


if __name__ == "__main__":
    unittest.main()
