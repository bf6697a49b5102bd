"""The table of a training's methods, for ddp.py and perf/measured.md."""
import statistics

LAST_LOSSES = 20  # Whose mean is said to be the loss at the end.

HEADER = ("method", "ms a step", "faster", "sent MB a step", "of the first", "compressed calls", "loss",
          "test loss", "s to loss", "sooner", "ranks agree")


def cells(result, first):
    """A method's row, beside the first method. Of Gloo it is not known what it sent."""
    sent, first_sent = result["sent_bytes_a_step"], first["sent_bytes_a_step"]
    return (f"`{result['method']}`", f"{1e3 * result['seconds_a_step']:.0f}",
            f"{first['seconds_a_step'] / result['seconds_a_step']:.2f}x",
            f"{sent / 1e6:.2f}" if sent else "", f"{sent / first_sent:.3f}" if sent and first_sent else "",
            f"{result['compressed_calls']} of {result['calls']}" if "calls" in result else "",
            f"{result['loss']:.3f}", f"{result['test_loss']:.3f}",
            *time_to_loss(result, first), "yes" if result["ranks_agree"] else "NO")


def loss_after(result, steps):
    """The mean of the last steps before."""
    return statistics.mean(result["losses"][max(0, steps - LAST_LOSSES):steps])


def seconds_to_loss(result, first):
    """Until it has the loss that `first` has after nine tenths of its steps; None: it never has."""
    wanted = loss_after(first, len(first["losses"]) * 9 // 10)
    for steps in range(LAST_LOSSES, len(result["losses"]) + 1):
        if loss_after(result, steps) <= wanted:
            return sum(result["seconds"][:steps])
    return None


def time_to_loss(result, first):
    own = seconds_to_loss(result, first)
    return ("", "") if own is None else (f"{own:.0f}", f"{seconds_to_loss(first, first) / own:.2f}x")
