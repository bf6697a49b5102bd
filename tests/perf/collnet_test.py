#!/usr/bin/env python3
"""usage: collnet_test.py COLLNET_PERF   Its times stand under the names of codecs that calls went by."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
RANKS = 2


class Collnet(unittest.TestCase):
    def run_ranks(self, codecs, **variables):
        """Exit statuses, rank 0's output, and errors."""
        with tempfile.TemporaryDirectory() as folder:
            ranks = [subprocess.Popen(
                [PROGRAM, "--folder", folder, "--bytes", "4M", "--repetitions", "2", "--codecs", codecs],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(RANKS),
                     "RINGPRESS_SOCKET_IFNAME": "lo", **variables}) for rank in range(RANKS)]
            done = [rank.communicate(timeout=100) for rank in ranks]
            return [rank.returncode for rank in ranks], done[0][0], "".join(error for _, error in done)

    def test_codecs_are_those_that_calls_went_by(self):
        statuses, out, error = self.run_ranks("none,q4")
        self.assertEqual(statuses, [0] * RANKS, error)
        found = [row["last_codec"].split(":")[0] for row in json.loads(out)["codecs"]]
        self.assertEqual(found, ["none", "q4"])

    def test_calls_that_went_by_another_codec_are_an_error(self):
        statuses, out, error = self.run_ranks("none,q4", RINGPRESS_MIN_BYTES="1G")
        self.assertEqual((statuses, out), ([1] * RANKS, ""), error)
        self.assertIn("q4: 0 of ", error)


if __name__ == "__main__":
    unittest.main()
