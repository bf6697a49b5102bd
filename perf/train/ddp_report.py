"""The table of a training's methods, for ddp.py and the README."""

HEADER = ("method", "ms a step", "faster", "sent MB a step", "of the first", "compressed calls", "loss",
          "test loss", "ranks agree")


def cells(result, first):
    """A method's row, beside the first method. Of Gloo it is not known what it sent."""
    sent, first_sent = result["sent_bytes_a_step"], first["sent_bytes_a_step"]
    return (f"`{result['method']}`", f"{1e3 * result['seconds_a_step']:.0f}",
            f"{first['seconds_a_step'] / result['seconds_a_step']:.2f}x",
            f"{sent / 1e6:.2f}" if sent else "", f"{sent / first_sent:.3f}" if sent and first_sent else "",
            f"{result['compressed_calls']} of {result['calls']}" if "calls" in result else "",
            f"{result['loss']:.3f}", f"{result['test_loss']:.3f}", "yes" if result["ranks_agree"] else "NO")
