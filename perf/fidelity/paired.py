"""What a method costs in loss: trainings with it beside exact ones of the same seeds."""
import collections
import math
import statistics

EXACT = "none"
CASE = ("task", "optimizer", "workers", "steps")


def sign_test(differences):
    """The chance that so uneven a split of signs comes from a fair coin; two-sided, zeros left out."""
    positive = sum(difference > 0 for difference in differences)
    count = sum(difference != 0 for difference in differences)
    if count == 0:
        return 1.0
    tail = sum(math.comb(count, k) for k in range(min(positive, count - positive) + 1))
    return min(1.0, 2 * tail / 2 ** count)


def standard_error(values):
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None


def difference_row(case, method, pairs):
    """`pairs`: (exact trial, trial of the method), of the same seed each."""
    percent = [100 * (trial["loss"] / exact["loss"] - 1) for exact, trial in pairs]
    best = [100 * (trial["best_loss"] / exact["best_loss"] - 1) for exact, trial in pairs]
    accuracy = [100 * (trial["accuracy"] - exact["accuracy"]) for exact, trial in pairs]
    exact_losses = [exact["loss"] for exact, _ in pairs]
    spread = standard_error(exact_losses)
    trials = [trial for _, trial in pairs]
    return {**dict(zip(CASE, case)), "method": method, "seeds": len(pairs),
            "exact_loss": statistics.fmean(exact_losses),
            "exact_standard_error_percent": spread and 100 * spread / statistics.fmean(exact_losses),
            "loss_percent": statistics.fmean(percent), "standard_error": standard_error(percent),
            "sign_test": sign_test(percent), "best_loss_percent": statistics.fmean(best),
            "accuracy_points": statistics.fmean(accuracy),
            "times_fewer_bytes": statistics.fmean(trial["raw_bytes"] / trial["wire_bytes"] for trial in trials),
            "compressed_share": statistics.fmean(trial["compressed_calls"] / trial["calls"] for trial in trials),
            "ranks_agree": all(trial["ranks_agree"] for trial in trials)}


def compare(trials):
    """A row for each method and case that has an exact trial of a seed of its own."""
    found = collections.defaultdict(dict)
    for trial in trials:
        found[tuple(trial[name] for name in CASE), trial["method"]][trial["seed"]] = trial
    rows = []
    for (case, method), by_seed in sorted(found.items()):
        exact = found.get((case, EXACT), {})
        pairs = [(exact[seed], by_seed[seed]) for seed in sorted(by_seed) if seed in exact]
        if method != EXACT and pairs:
            rows.append(difference_row(case, method, pairs))
    return rows


def cell(row):
    error = "" if row["standard_error"] is None else f" ± {row['standard_error']:.2f}"
    return f"{row['loss_percent']:+.2f}{error} %"


def table(rows):
    """Markdown: a line for each case, a column for each method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    cases = list(dict.fromkeys(tuple(row[name] for name in CASE) for row in rows))
    by_place = {(tuple(row[name] for name in CASE), row["method"]): row for row in rows}
    lines = ["| task | optimizer | workers | steps | seeds | " + " | ".join(f"`{m}`" for m in methods) + " |",
             "|---" * (5 + len(methods)) + "|"]
    for case in cases:
        seeds = max(by_place[case, m]["seeds"] for m in methods if (case, m) in by_place)
        cells = [cell(by_place[case, m]) if (case, m) in by_place else "" for m in methods]
        lines.append("| " + " | ".join(str(word) for word in (*case, seeds, *cells)) + " |")
    fewer = []
    for method in methods:
        ratios = [row["times_fewer_bytes"] for row in rows if row["method"] == method]
        fewer.append(f"{min(ratios):.1f}" if max(ratios) - min(ratios) < 0.05 else
                     f"{min(ratios):.1f} to {max(ratios):.1f}")
    lines.append("| times fewer bytes | | | | | " + " | ".join(fewer) + " |")
    return "\n".join(lines) + "\n"
