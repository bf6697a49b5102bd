#!/usr/bin/env python3
"""usage: tables_test.py PERF_DIR   Tests of the demo's report and the pages' tables."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

PERF = pathlib.Path(sys.argv.pop(1))
sys.path[:0] = [str(PERF), str(PERF / "demo"), str(PERF / "peers"), str(PERF / "train")]
import automatic  # noqa: E402
import peers  # noqa: E402
import readme_tables  # noqa: E402
import report  # noqa: E402
import ringpress_api  # noqa: E402


def result(setting, time_us, ratio, relerr):
    return {"size": 4000000, "out_of_place": {"time": time_us, "alg_bw": 1.0, "bus_bw": 1.5},
            "out_of_place_per_iter": {"min_us": time_us - 1, "max_us": time_us + 1},
            "ringpress": {"setting": setting, "codec": setting + ":block=128", "algorithm": "sra",
                          "ratio": ratio, "wire_bytes": 6000000 / ratio, "relerr": relerr, "mean_relerr": relerr / 8,
                          "identical": True}}


def demo():
    run = {"config": {"devices": [{}, {}, {}, {}], "mean_of": 8},
           "results": [result("none", 40000, 1.0, 0), result("q4", 5000, 7.75, 0.14)]}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(run, file)
        file.flush()
        read = report.read_run("a < b", file.name)
    return {"machine": "m & n", "rate": "1gbit", "ranks": read["ranks"], "runs": [read]}


class Demo(unittest.TestCase):
    def test_cells_compare_with_the_first_row(self):
        rows = demo()["runs"][0]["rows"]
        cells = report.cells(rows[1], rows[0])
        self.assertEqual(len(cells), len(report.COLUMNS))
        self.assertEqual(cells[:3], ("q4", "5.00 ms", "8.00x"))
        self.assertEqual(cells[-1], "yes")

    def test_the_choice_is_that_of_all_timed_calls(self):
        self.assertEqual(automatic.codecs_of({"codecs": {"q4:block=128": 20}}), "q4")
        self.assertEqual(automatic.codecs_of({"codecs": {"none": 3, "q4:block=128": 9, "q4:block=64": 8}}),
                         "q4+none")

    def test_a_fixed_setting_that_went_by_another_codec_is_refused(self):
        def rows(**codecs):
            return [{"size": 65536, "ringpress": {"codecs": codecs, "reason": "too small"}}]
        automatic.require_codecs(["q4@ring"], rows(q4=3))
        automatic.require_codecs(["auto"], rows(q8=3, none=1))
        for wrong in (rows(none=3), rows(q4=2, none=1)):
            with self.assertRaisesRegex(RuntimeError, "too small"):
                automatic.require_codecs(["q4"], wrong)


class Readme(unittest.TestCase):
    def test_demo_table_replaces_what_was_there(self):
        table = readme_tables.demo_table(demo())
        text = "top\n<!-- demo -->\nold\n<!-- /demo -->\nend\n"
        once = readme_tables.replaced(text, "demo", table)
        self.assertNotIn("old", once)
        self.assertIn("| `q4` | 5.0 ms | 8.00x |", once)
        self.assertEqual(once, readme_tables.replaced(once, "demo", table))
        with self.assertRaises(ValueError):
            readme_tables.replaced("no markers", "demo", table)


    def test_codecs_table_has_a_row_per_example(self):
        codecs = [{"codec": "q4", "summable": False, "lossless": False, "error_feedback": "advised",
                   "memory": "none", "when_to_use": "often"}]
        rows = [{"mode": "single", "codec": "q4", "data": data, "error": 0.0136, "bits": 4.125}
                for data in ("gaussian", "student_t3")]
        speed = {"bytes": 1 << 28, "rows": [{"requested": "q4", "operation": "encode", "ratio": 1.31}]}
        table = readme_tables.codecs_table({"codecs": codecs, "rows": rows}, speed)
        self.assertIn("256 MB", table)
        self.assertIn("| `q4` | 4.12 | 0.014 | 0.014 | 1.31x |  | none | no | advised | often |", table)


    def test_frameworks_table_says_which_doors_work(self):
        row = {"framework": "F", "package": "f", "version": "1.0", "reaches": "opened",
               "evidence": "e", "opens": "path", "proof": "p", "doors": ["LD_PRELOAD of libnccl.so.2", "NCCL_NET_PLUGIN"]}
        table = readme_tables.frameworks_table({"frameworks": [row], "absent": ["g"], "nccl": "n",
                                                "command": "c", "date": "d"})
        self.assertIn("| F | f 1.0 | opened by its path: e | p | no | yes | no | yes |", table)
        self.assertIn("Not in the registry: g.", table)

    def test_roofline_table_has_what_was_predicted_and_measured(self):
        row = {"operation": "quantise", "codec": "q4", "element": "float32",
               "instructions_per_value": 20.04, "H200": {"share": 0.929, "limit": "issue"}}
        rates = [{"codec": "copy", "gbytes_per_s": 4000.0},
                 {"codec": "q4", "type": "float32", "operation": "decode", "of_copy": 0.5},
                 {"codec": "q4", "type": "float32", "operation": "encode", "of_copy": 0.75}]
        measured = {"checks": [{"name": "rates", "figures": {"rates": rates}}], "started": "2026-11-26T1",
                    "machine": {"gpus": ["NVIDIA H200"]}}
        table = readme_tables.roofline_table({"rows": [row], "command": "c", "date": "d",
                                              "architecture": "sm_90"}, measured)
        self.assertIn("on an H200", table)
        self.assertIn("| 20.0 | 0.93, issue | 0.75 |", table)

    def test_kept_results_are_those_of_the_pages(self):
        for page, marker, file, table in (
                ("nccl_plugin/preload/using.md", "frameworks", "frameworks", readme_tables.frameworks_table),
                ("README.md", "front", "demo", readme_tables.front_table),
                ("perf/measured.md", "ddp", "train-ddp-n2", readme_tables.ddp_table)):
            text = (PERF.parent / page).read_text(encoding="utf-8")
            kept = json.loads((PERF / "results" / f"{file}.json").read_text(encoding="utf-8"))
            self.assertEqual(text, readme_tables.replaced(text, marker, table(kept)), marker)
        kept = [json.loads((PERF / "results" / f"{file}.json").read_text(encoding="utf-8"))
                for file in ("roofline", "gpu-bench")]
        text = (PERF.parent / "perf" / "measured.md").read_text(encoding="utf-8")
        table = readme_tables.roofline_table(*kept)
        self.assertEqual(text, readme_tables.replaced(text, "roofline", table))


class Peers(unittest.TestCase):
    def rows(self, statistic="median"):
        entries = [peers.Contender(name, group, None) for name, group in
                   (("gloo", "gloo"), ("openmpi default", "openmpi"),
                    ("openmpi segmented ring", "openmpi"), ("ringpress q4", "ringpress q4"))]
        samples = {"gloo": {1024: [100, 110, 120]}, "openmpi default": {1024: [90]},
                   "openmpi segmented ring": {1024: [60, 70]}, "ringpress q4": {1024: [10, 13]}}
        return peers.summarize(entries, samples, [1024], lambda size: statistic)

    def test_the_best_configuration_of_a_peer_counts(self):
        row = self.rows()[0]
        self.assertEqual(row["best"]["openmpi"]["configuration"], "openmpi segmented ring")
        self.assertAlmostEqual(row["ratios"]["ringpress q4 over openmpi"], 65 / 11.5)
        self.assertAlmostEqual(row["ratios"]["ringpress q4 over gloo"], 110 / 11.5)

    def test_means_are_used_and_marked_where_a_burst_passes(self):
        row = self.rows("mean")[0]
        self.assertAlmostEqual(row["ratios"]["ringpress q4 over gloo"], 110 / 11.5)
        text = readme_tables.peers_table([{"link": "1gbit", "ranks": 4, "start_time": "1", "rows": [row],
                                           "machine": {"cores": 2, "cpu": "x"}}])
        self.assertIn("| 1 KB (mean) |", text)
        shown = [peers.statistic_for(size, False, "1gbit") for size in (4096, 1 << 20, 1 << 28)]
        self.assertEqual(shown, ["median", "mean", "median"])
        self.assertEqual(peers.statistic_for(1 << 20, True, "1gbit"), "median")
        self.assertEqual(peers.statistic_for(1 << 20, False, "none"), "median")

    def test_tables_name_the_ratio_to_the_better_peer(self):
        self.assertIn("(5.65x)", peers.table(self.rows()))
        text = readme_tables.peers_table([{"link": "1gbit", "ranks": 4, "start_time": "1", "rows": self.rows(),
                                           "machine": {"cores": 2, "cpu": "x"}}])
        self.assertIn("| 1gbit | 4 | 1 KB |", text)
        self.assertIn("(5.65x)", text)

    def test_what_was_measured_again_counts_as_last_measured(self):
        report = lambda time, size, mark: {"link": "1gbit", "ranks": 4, "start_time": time,
                                           "rows": [{"bytes": size, "mark": mark}]}
        rows = readme_tables.newest_rows([report("2", 4096, "new"), report("1", 4096, "old"),
                                          report("3", 64, "other")])
        self.assertEqual([(row["bytes"], row["mark"]) for _, _, row in rows],
                         [(64, "other"), (4096, "new")])

    def test_sizes_and_iterations(self):
        self.assertEqual(peers.parse_bytes("4K"), 4096)
        self.assertEqual(peers.parse_bytes("100000000"), 100000000)
        self.assertEqual(peers.iterations_for(4096, True), 200)
        self.assertEqual(peers.iterations_for(1 << 30, False), 2)
        self.assertEqual(peers.iterations_for(1 << 30, True), 8)


class Gossip(unittest.TestCase):
    def test_methods_have_their_parameters_and_stand_beside_every_step(self):
        def row(method, sent, **parameters):
            return {"method": method, "exchanges": 10.0, "sent_bytes": sent, "seconds": 2.0,
                    "communicating_seconds": 1.0, "accuracy": 0.5, **parameters}
        def report(link, seeds):
            results = [row("all-reduce", 300), row("gossip, every step", 200, theta=0.0),
                       row("all-reduce, lazy", 50, lazy=4)]
            for result, accuracy in zip(results, (0.5, 0.6, 0.55)):
                result["accuracies"] = [accuracy + 0.01 * seed * accuracy for seed in range(seeds)]
            return {"task": "digits", "ranks": 4, "link": link, "results": results}
        table = readme_tables.gossip_table([report("none", 3), report("10mbit", 1)])
        self.assertIn("| digits, 4 workers | all-reduce | 10 | 1.500 |", table)
        self.assertIn("|  | gossip, every step | 10 | 1.000 | 1.00 | 0.50 | 60.60 % | +0.00 ± 0.00 |", table)
        self.assertIn("|  | all-reduce, lazy, lazy 4 | 10 | 0.250 | 1.00 | 0.50 | 55.55 % | -5.05 ± 0.03 |",
                      table)


class Fidelity(unittest.TestCase):
    def test_each_training_has_a_column_and_the_most_seeds_count(self):
        def row(method, percent, seeds, **case):
            return {"method": method, "loss_percent": percent, "standard_error": 0.1, "seeds": seeds, "task": "tiny",
                    "optimizer": "adamw", "steps": 300, "times_fewer_bytes": 7.7, **case}
        reports = [{"rows": [row("q4", 0.5, 1), row("q4", 0.4, 2, optimizer="sgd", times_fewer_bytes=7.6)]},
                   {"rows": [row("q4", 0.3, 5)], "codecs_of_warm_up": {"rows": [row("topk+A=1", -2, 1)]}}]
        table = readme_tables.fidelity_table(reports)
        self.assertIn("| method | fewer bytes | `tiny`, AdamW, 300 steps | `tiny`, SGD, 300 steps |", table)
        self.assertIn("| `q4` | 7.6x | +0.30 ± 0.10 % (5) | +0.40 ± 0.10 % (2) |", table)
        self.assertIn("| `topk+A=1` | 7.7x | -2.00 % (1) |  |", table)


class Training(unittest.TestCase):
    def test_methods_stand_beside_the_first(self):
        def row(method, seconds, sent, **more):
            return {"method": method, "seconds_a_step": seconds, "sent_bytes_a_step": sent, "loss": 1.5,
                    "test_loss": 1.75, "ranks_agree": True, "losses": [2] * 20 + [1] * 20,
                    "seconds": [seconds] * 40, **more}
        report = {"ranks": 2, "link": "100mbit", "parameters": 3.5e6, "cores": 2,
                  "results": [row("none", 2, 8e6, calls=9, compressed_calls=0),
                              row("q4", 0.5, 1e6, calls=9, compressed_calls=8),
                              row("gloo", 4, 0) | {"ranks_agree": False, "losses": [2] * 40}]}
        table = readme_tables.ddp_table(report)
        self.assertIn("2 ranks, links of 100mbit, 3.5 million parameters, 40 steps", table)
        self.assertIn("| `q4` | 500 | 4.00x | 1.00 | 0.125 | 8 of 9 | 1.500 | 1.750 | 18 | 4.00x | yes |", table)
        self.assertIn("| `gloo` | 4000 | 0.50x |  |  |  | 1.500 | 1.750 |  |  | NO |", table)


class TrainApi(unittest.TestCase):
    def test_settings_of_one_communicator_are_those_of_no_other(self):
        os.environ["RINGPRESS_MIN_BYTES"] = "7"
        with ringpress_api.environment(RINGPRESS_LAZY="4", RINGPRESS_MIN_BYTES="0"):
            inside = os.environ["RINGPRESS_LAZY"], os.environ["RINGPRESS_MIN_BYTES"]
        self.assertEqual(inside, ("4", "0"))
        self.assertNotIn("RINGPRESS_LAZY", os.environ)
        self.assertEqual(os.environ.pop("RINGPRESS_MIN_BYTES"), "7")


if __name__ == "__main__":
    unittest.main()
