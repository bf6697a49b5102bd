"""The bench of trainings: statistics of pairs, what is run, and that it goes on where it was. No training.

usage: fidelity_test.py PERF_DIR
"""
import json
import pathlib
import sys
import tempfile
import unittest

PERF = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(PERF / "fidelity"))
import paired  # noqa: E402
import run  # noqa: E402


def trial(method, seed, loss, **more):
    return {"task": "mlp", "optimizer": "sgd", "workers": 4, "steps": 300, "method": method, "seed": seed,
            "loss": loss, "best_loss": loss, "accuracy": 0.5, "raw_bytes": 800, "wire_bytes": 100,
            "compressed_calls": 3, "calls": 4, "ranks_agree": True, **more}


class Paired(unittest.TestCase):
    def test_seeds_are_compared_with_themselves(self):
        exact = [trial("none", 1, 2.0), trial("none", 2, 4.0), trial("none", 3, 9.0)]
        row, = paired.compare([*exact, trial("q4", 2, 4.4), trial("q4", 1, 2.0), trial("q4", 7, 1.0)])
        self.assertEqual(row["seeds"], 2)  # Seed 7 has no exact one, seed 3 no other.
        self.assertAlmostEqual(row["loss_percent"], 5)
        self.assertAlmostEqual(row["standard_error"], 5)
        self.assertAlmostEqual(row["exact_loss"], 3)
        self.assertEqual(row["times_fewer_bytes"], 8)
        self.assertEqual(row["compressed_share"], 0.75)

    def test_cases_are_apart(self):
        trials = [trial("none", 1, 2.0), trial("q4", 1, 3.0, steps=3000)]
        self.assertEqual(paired.compare(trials), [])

    def test_ranks_that_differ_are_told(self):
        row, = paired.compare([trial("none", 1, 2.0), trial("q4", 1, 2.0, ranks_agree=False)])
        self.assertFalse(row["ranks_agree"])

    def test_signs(self):
        self.assertEqual(paired.sign_test([1, 1, 1, 1, 1]), 2 / 32)
        self.assertEqual(paired.sign_test([1, -1]), 1)
        self.assertEqual(paired.sign_test([0, 0]), 1)
        self.assertEqual(paired.sign_test([-1, -2, -3, 0]), 2 / 8)

    def test_table_has_a_column_for_each_method(self):
        rows = paired.compare([trial("none", 1, 2.0), trial("q4", 1, 2.1), trial("q8", 1, 2.0, wire_bytes=200)])
        text = paired.table(rows)
        self.assertIn("| `q4` | `q8` |", text)
        self.assertIn("| mlp | sgd | 4 | 300 | 1 | +5.00 % | +0.00 % |", text)
        self.assertIn("| times fewer bytes | | | | | 8.0 | 4.0 |", text)


class Runs(unittest.TestCase):
    def form(self, *words):
        with tempfile.NamedTemporaryFile() as library:
            return list(run.trials_of(run.chosen_form(run.parse(["short", "--library", library.name, *words]))))

    def test_each_method_has_exact_trainings_before_it(self):
        trials = self.form("--methods", "q4,q8", "--tasks", "mlp", "--seeds", "2")
        self.assertEqual([t["method"] for t in trials], ["none"] * 2 + ["q4"] * 2 + ["q8"] * 2)
        self.assertEqual({t["task"] for t in trials}, {"mlp"})

    def test_files_of_trials_are_apart(self):
        trials = self.form("--methods", "q4,q4:block=64,q4+EF=0", "--workers", "4,8", "--steps", "30,300")
        self.assertEqual(len({run.path_of(t, pathlib.Path("F")) for t in trials}), len(trials))

    def test_unknown_names_are_refused(self):
        with self.assertRaises(SystemExit):
            self.form("--tasks", "cats")

    def test_what_is_there_is_not_run_again(self):
        with tempfile.TemporaryDirectory() as name:
            folder, ran = pathlib.Path(name), []
            trials = self.form("--methods", "q4", "--tasks", "mlp", "--seeds", "1")
            run.path_of(trials[0], folder).write_text(json.dumps(trial("none", 1, 2.0)))
            options = run.parse(["short", "--library", __file__, "--folder", name, "--at-once", "1"])
            whole, run.run_trial = run.run_trial, lambda t, *_: ran.append(t["method"])
            try:
                self.assertEqual(run.run_all(trials, options), [])
            finally:
                run.run_trial = whole
            self.assertEqual(ran, ["q4"])
            self.assertEqual(len(run.kept_results(trials, folder)), 1)


if __name__ == "__main__":
    unittest.main()
