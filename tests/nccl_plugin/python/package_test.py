#!/usr/bin/env python3
"""The package without torch: communicators on numpy arrays, gossip, state, errors, and where the library is looked for.

usage: package_test.py [unittest's options]
Without numpy it is skipped (exit status 77).
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

try:
    import numpy
except ImportError:
    print("there is no numpy: nothing was tested")
    sys.exit(77)
import ranks
import ringpress
from ringpress import library

SIZE = 3


def collectives(rank, size, folder):
    with ringpress.communicator(folder=folder) as comm:
        for name in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"):
            values = (numpy.arange(6) + rank).astype(name)
            every = [(numpy.arange(6) + other).astype(name) for other in range(size)]
            total = sum(every).astype(name)
            result = numpy.empty_like(values)
            comm.all_reduce(values, result)
            numpy.testing.assert_array_equal(result, total)
            gathered = numpy.empty((size, 6), name)
            comm.all_gather(values, gathered)
            numpy.testing.assert_array_equal(gathered, every)
            part = numpy.empty(2, name)
            comm.reduce_scatter(values, part, op="max")
            numpy.testing.assert_array_equal(part, numpy.max(every, 0)[2 * rank:2 * rank + 2])
            comm.all_to_all(values, result)
            numpy.testing.assert_array_equal(result, numpy.concatenate([row[2 * rank:2 * rank + 2] for row in every]))
            comm.reduce(values, result, op="min", root=1)
            if rank == 1:
                numpy.testing.assert_array_equal(result, numpy.min(every, 0))
            comm.broadcast(values, root=2)
            numpy.testing.assert_array_equal(values, every[2])
        mean = numpy.full(5, float(rank))
        comm.all_reduce(mean, op="avg")
        numpy.testing.assert_allclose(mean, (size - 1) / 2)
        if rank == 0:
            comm.send(mean, 1)
        elif rank == 1:
            comm.receive(mean, 0)
        assert comm.statistics()["calls"] > 0


def gossip(rank, _, folder):
    with ringpress.communicator(folder=folder) as comm:
        model = numpy.full(1000, float(rank), numpy.float32)
        made = ringpress.Gossip(comm, model, seed=4)
        step = made.step(model)
        assert step["exchanged"] == 1 and step["peer"] == 1 - rank, step
        numpy.testing.assert_array_equal(model, numpy.full(1000, 0.5, numpy.float32))
        made.flush(model)
        assert made.statistics()["exchanges"] == 1, made.statistics()
        made.destroy()
        try:
            ringpress.Gossip(comm, model, theta=1.0 + rank)
        except ringpress.InvalidUsageError as error:
            assert "theta" in str(error), error
        else:
            raise AssertionError("options that differ were taken")


def state(rank, _, folder):
    os.environ.update(RINGPRESS_CODEC="q4", RINGPRESS_DETERMINISTIC="1")
    generator = numpy.random.default_rng(rank)
    steps = generator.standard_normal((6, 40000)).astype(numpy.float32)
    places = [pathlib.Path(folder, name) for name in ("one", "two")]
    if rank == 0:
        for place in places:
            place.mkdir()
    else:
        while not places[1].is_dir():
            pass
    with ringpress.communicator(folder=places[0]) as comm:
        for values in steps[:3]:
            comm.all_reduce(values)
        comm.save_state(f"{folder}/state{rank}")
        again = steps[3:].copy()
        for values in steps[3:]:
            comm.all_reduce(values)
        assert comm.statistics()["compressed_calls"] > 0
    with ringpress.communicator(folder=places[1]) as comm:
        missing = comm.load_state(f"{folder}/none{rank}")
        assert missing is not None and missing.startswith("rank 0: "), missing
        reason = comm.load_state(f"{folder}/state{rank}")
        assert reason is None, reason
        for values, wanted in zip(again, steps[3:]):
            comm.all_reduce(values)
            numpy.testing.assert_array_equal(values, wanted)


class Package(unittest.TestCase):
    """On one rank and on several."""

    def test_collectives(self):
        ranks.run(collectives, SIZE)

    def test_gossip(self):
        ranks.run(gossip, 2)

    def test_state(self):
        ranks.run(state, 2)

    def test_version_is_that_of_the_header(self):
        header = (library.include_folder() / "ringpress" / "version.h")
        if header.is_file():
            numbers = re.findall(r"define RINGPRESS_VERSION_[A-Z]+ (\d+)$", header.read_text(encoding="utf-8"), re.M)
            self.assertEqual(ringpress.version(), ".".join(numbers))
        self.assertTrue(ringpress.library_path().is_file())

    def test_arguments_are_checked(self):
        with ringpress.communicator() as comm:
            for send, receive, text in (
                    (numpy.ones(3, numpy.int16), None, "int16"),
                    (numpy.ones((4, 4))[:, 1], None, "not contiguous"),
                    ([1.0, 2.0], None, "numpy array"),
                    (numpy.ones(3), numpy.ones(4), "3 elements and receive 4"),
                    (numpy.ones(3), numpy.ones(3, numpy.float32), "float32"),
                    (numpy.frombuffer(bytes(8), numpy.float32), None, "read-only")):
                with self.assertRaises(ringpress.InvalidArgumentError) as caught:
                    comm.all_reduce(send, receive)
                self.assertIn(text, str(caught.exception))
            with self.assertRaisesRegex(ringpress.InvalidArgumentError, "'mean' is not known.*avg"):
                comm.all_reduce(numpy.ones(3), op="mean")
            with self.assertRaises(ringpress.RingpressError):
                comm.broadcast(numpy.ones(3), root=5)

    def test_ranks_are_checked(self):
        with self.assertRaisesRegex(ringpress.InvalidArgumentError, "unique= .*folder="):
            ringpress.communicator(0, 2)
        with self.assertRaisesRegex(ringpress.RingpressError, "rank"):
            ringpress.communicator(3, 2, unique=ringpress.unique_id())
        with self.assertRaisesRegex(ringpress.InvalidArgumentError, "3 bytes"):
            ringpress.communicator(0, 1, unique=b"abc")
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(ringpress.RemoteError, "rank 0"):
            ringpress.exchange_by_folder(folder, 1, timeout=0.01)

    def test_an_ended_communicator_refuses(self):
        comm = ringpress.communicator()
        comm.destroy()
        comm.destroy()
        with self.assertRaises(ringpress.RingpressError):
            comm.all_reduce(numpy.ones(3))

    def test_a_library_that_is_not_there_is_told(self):
        code = "import ringpress; ringpress.version()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                              env={**os.environ, library.VARIABLE: "/no/such.so"})
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"{library.VARIABLE}=/no/such.so", done.stderr)

    def test_two_libraries_are_told(self):
        maps = "7f00-7f01 r-xp 00000000 08:01 12  /opt/other dir/libringpress.so.9\n7f02-7f03 rw-p 0 00:00 0\n"
        own = ringpress.library_path()
        self.assertEqual(library.other_libraries(own, maps), ["/opt/other dir/libringpress.so.9"])
        self.assertEqual(library.other_libraries(own), [])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            library.warn_of_others(own, maps)
        self.assertEqual([warning.category for warning in caught], [ringpress.TwoLibrariesWarning])
        self.assertIn(str(own), str(caught[0].message))


if __name__ == "__main__":
    unittest.main()
