"""Line charts in which lines that coincide can be told apart, with a legend beside them."""
import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot, ticker  # noqa: E402  (the back end is chosen first)

# Colours of Okabe and Ito, which people with any colour vision can tell apart, darkest first.
COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00"]
DASHES = ["solid", (0, (5, 2)), (0, (1, 1.5)), (0, (6, 2, 1, 2)), (0, (3, 1, 1, 1, 1, 1))]
MARKERS = "os^Dv*PX<>hp"
WIDEST, NARROWEST = 3.6, 1.2
WIDTH, HEIGHT = 8.4, 4.6  # Inches, with the legend.


def style(index, count):
    """A line that lies on earlier ones is narrower, so that these show on both sides of it."""
    width = WIDEST - (WIDEST - NARROWEST) * index / max(1, count - 1)
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[index % len(DASHES)],
            "marker": MARKERS[index % len(MARKERS)], "linewidth": width, "markersize": 5.5,
            "markerfacecolor": "white" if index % 2 else COLOURS[index % len(COLOURS)]}


def figure(panels=1):
    """(figure, its axes in a list), two in a row."""
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "ringpress", "font.size": 10,
                                "axes.grid": True, "grid.color": "#dddddd", "axes.axisbelow": True})
    rows, columns = (panels + 1) // 2, min(panels, 2)
    drawn, axes = pyplot.subplots(rows, columns, squeeze=False, layout="constrained",
                                  figsize=(WIDTH if columns == 1 else 1.4 * WIDTH, HEIGHT * (1 if rows == 1 else 0.85 * rows)))
    return drawn, list(axes.flat)


def draw_lines(axes, lines, join=True):
    """`lines`: {name: [(x, y), ...]}, the order of the legend."""
    for index, (name, points) in enumerate(lines.items()):
        given = style(index, len(lines))
        if not join:
            given["linestyle"] = "none"
        axes.plot(*zip(*sorted(points)), label=name, **given)


def use_plain_log_ticks(axes):
    """Powers of two, written out."""
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))


def finish(drawn, axes, path, title):
    """One legend for all panels; nothing in the file that differs from run to run."""
    drawn.suptitle(title)
    entries = {}
    for one in axes:
        entries.update({label: line for line, label in zip(*one.get_legend_handles_labels())})
    drawn.legend(entries.values(), entries.keys(), loc="upper left", bbox_to_anchor=(1, 0.95),
                 handlelength=3.5, fontsize=9)
    drawn.savefig(path, metadata={"Date": None, "Title": title}, bbox_inches="tight")
    pyplot.close(drawn)
