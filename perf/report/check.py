#!/usr/bin/env python3
"""The pages of `ringpress report` in Chromium: at two widths, light and dark, looked at by axe-core, and how large and
quick they are. One command; needs Chromium (apt-get install chromium) and axe.min.js, which the Python package
axe-playwright-python brings (pip install --no-deps axe-playwright-python), or --axe names.

Pages: of the files in samples/, which real programs have left; of a made job of 4 ranks with live lines, beside other
inputs and with mistakes; and of 100 000 live lines. Status 1: a page has a violation, is too wide or too large, or opens
too slowly. With --write the table goes to perf/results/report-page.txt.
"""
import argparse
import importlib.util
import pathlib
import statistics
import subprocess
import sys
import tempfile

from browser import Browser

PERF = pathlib.Path(__file__).resolve().parent.parent
ROOT = PERF.parent
sys.path.insert(0, str(ROOT / "tests" / "nccl_plugin" / "command" / "report"))
from job_files import lines_of, live_line, live_lines, statistics_line  # noqa: E402

WIDTHS = (375, 1280)
SCHEMES = ("light", "dark")
MOST_BYTES = 500000
MOST_SECONDS = 1.0
LOADS = 5
RULES = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}"
# Of lines of the page's charts and of its text nothing lies outside the window.
TOO_WIDE = "document.scrollingElement.scrollWidth > document.documentElement.clientWidth"
LOAD_MS = "(t => t.loadEventEnd - t.startTime)(performance.getEntriesByType('navigation')[0])"
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"


def find_axe(given):
    if given:
        return pathlib.Path(given)
    package = importlib.util.find_spec("axe_playwright_python")
    if package is None:
        sys.exit("check.py: there is no axe.min.js: pip install --no-deps axe-playwright-python, or --axe FILE")
    return pathlib.Path(package.submodule_search_locations[0]) / "axe.min.js"


def make_pages(program, folder):
    """Names and files of pages."""
    live = folder / "live"
    live.write_text(lines_of(live_lines(4, 60)), encoding="utf-8")
    bad = folder / "bad"
    bad.write_text(lines_of([statistics_line(0, 2, pid=5), statistics_line(1, 2, pid=6)])[:-40], encoding="utf-8")
    many = folder / "many"
    with open(many, "w", encoding="utf-8") as file:
        for number in range(1, 25001):
            file.write(lines_of(live_line(rank, 4, number) for rank in range(4)))
    samples = PERF / "report" / "samples"
    inputs = {"samples": sorted(path for path in samples.iterdir() if path.suffix != ".md"),
              "all": [live, bad, samples / "tuning.csv", samples / "step.json", samples / "sizes.json",
                      PERF / "results" / "fidelity-tasks.json", __file__],
              "many": [many]}
    for name, files in inputs.items():
        page = folder / f"{name}.html"
        subprocess.run([program, "report", *files, "-o", page], check=True, stdout=subprocess.DEVNULL)
        yield name, page


def load_seconds(browser, address, width, scheme):
    """The median of some loads; the load event has to end first."""
    times = []
    for _ in range(LOADS):
        browser.open(address, width, scheme=scheme)
        times.append(browser.evaluate(f"new Promise(r => setTimeout(() => r({LOAD_MS}), 0))") / 1e3)
    return statistics.median(times)


def violations_of(browser, axe):
    browser.evaluate(axe + "; true")
    found = browser.evaluate(f"axe.run(document, {RULES}).then(r => r.violations.map("
                             "v => v.id + ' (' + v.nodes.length + '): ' + v.nodes[0].html.slice(0, 120)))")
    return found


def check(browser, axe, name, page, options):
    rows, problems = [], []
    size = page.stat().st_size
    for width in WIDTHS:
        for scheme in SCHEMES:
            seconds = load_seconds(browser, page.as_uri(), width, scheme)
            browser.evaluate(OPEN_ALL)
            is_too_wide = browser.evaluate(TOO_WIDE)
            found = violations_of(browser, axe)
            if options.screenshots:
                folder = pathlib.Path(options.screenshots)
                folder.mkdir(parents=True, exist_ok=True)
                browser.screenshot(folder / f"{name}-{width}-{scheme}.png")
            rows.append(f"| {name} | {width} | {scheme} | {size / 1e3:.0f} | {1e3 * seconds:.0f} | {len(found)} | "
                        f"{'no' if is_too_wide else 'yes'} |")
            where = f"{name}, {width} px, {scheme}"
            problems += [f"{where}: {violation}" for violation in found]
            problems += [f"{where}: wider than the window"] * is_too_wide
            problems += [f"{where}: {seconds:.2f} s"] * (seconds > MOST_SECONDS)
    problems += [f"{name}: {size} bytes"] * (size > MOST_BYTES)
    return rows, problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build" / "perf" / "ringpress")
    parser.add_argument("--axe", help="axe.min.js")
    parser.add_argument("--chromium", default="chromium")
    parser.add_argument("--screenshots", help="a folder for pictures of the pages")
    parser.add_argument("--write", action="store_true", help="the table into perf/results/report-page.txt")
    options = parser.parse_args()
    axe = find_axe(options.axe).read_text(encoding="utf-8")
    rows, problems = [], []
    with tempfile.TemporaryDirectory() as folder, Browser(options.chromium) as browser:
        version = browser.call("Browser.getVersion")["product"]
        for name, page in make_pages(options.program, pathlib.Path(folder)):
            more_rows, more_problems = check(browser, axe, name, page, options)
            rows += more_rows
            problems += more_problems
        axe_version = browser.evaluate("axe.version")
    table = "\n".join([f"pages of `ringpress report` in {version}, axe-core {axe_version} (perf/report/check.py); the "
                       f"time is the median of {LOADS} loads, to the end of the load event", "",
                       "| page | width | scheme | kB | opens in ms | violations | fits |", "|---|---|---|---|---|---|---|",
                       *rows, ""])
    print(table)
    for problem in problems:
        print(problem)
    if options.write:
        (PERF / "results" / "report-page.txt").write_text(table, encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
