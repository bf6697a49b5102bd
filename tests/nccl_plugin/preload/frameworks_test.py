"""frameworks.py tells how programs reach NCCL and which door is before them there, on programs of
which that is known; and what its result may not say.

usage: frameworks_test.py SHIM_FOLDER FAKE_NCCL LINKED OPENING TRAMPOLINE
"""
import pathlib
import sys
import unittest

import framework_binding
import framework_elf
import frameworks

SHIMS, NCCL, LINKED, OPENING, TRAMPOLINE = (pathlib.Path(word).resolve() for word in sys.argv[1:6])
DOORS = ["none", framework_binding.PRELOAD, framework_binding.SONAME,
         framework_binding.LIBRARY_PATH]


class Ways(unittest.TestCase):
    def test_programs(self):
        linked = framework_elf.describe(LINKED)
        self.assertEqual(linked.reaches, "linked")
        self.assertIn("ncclAllReduce", linked.functions)
        opening = framework_elf.describe(OPENING)
        self.assertEqual((opening.reaches, opening.trampoline), ("opened", None))
        self.assertIsNotNone(framework_elf.describe(TRAMPOLINE).trampoline)
        self.assertEqual(framework_elf.describe(sys.executable).reaches, "no")

    def test_an_nccl_of_its_own(self):
        way = framework_elf.classify([], None, [("ncclAllReduce", "15", 64)], [], set(), True)
        self.assertEqual(way.reaches, "contained")

    def test_python(self):
        source = 'import ctypes\nlib = ctypes.CDLL("libnccl.so.2")\nF = ["ncclAllReduce", "ncclSend"]\n'
        self.assertEqual(framework_elf.describe_python([source]).functions,
                         ["ncclAllReduce", "ncclSend"])
        self.assertEqual(framework_elf.describe_python(["import ctypes\n"]).reaches, "no")
        self.assertTrue(framework_elf.hands_over_path(["def f():\n  from nvidia.nccl import lib\n"]))
        self.assertFalse(framework_elf.hands_over_path(["from nvidia import nccl\n"]))


class Bindings(unittest.TestCase):
    def bound(self, path, opens_first):
        return [frameworks.examine([path], SHIMS, NCCL, opens_first)[2][door] for door in DOORS]

    def test_a_linked_program_is_reached_by_both_shims(self):
        # The program names the folder of its NCCL (RUNPATH), which comes after LD_LIBRARY_PATH.
        self.assertEqual(self.bound(LINKED, False), ["NCCL", "ringpress", "ringpress", "ringpress"])
        self.assertEqual(self.bound(LINKED, True), ["NCCL", "ringpress", "ringpress", "NCCL"])

    def test_what_opens_nccl_is_reached_by_its_name(self):
        for path in (OPENING, TRAMPOLINE):
            self.assertEqual(self.bound(path, True), ["NCCL", "NCCL", "ringpress", "NCCL"])

    def test_what_opens_it_by_its_path_is_not_reached(self):
        target = framework_binding.Target(OPENING, NCCL, False, {"LD_PRELOAD": str(
            SHIMS / "preload" / "libnccl.so.2")})
        self.assertEqual(framework_binding.opened(target, str(NCCL), ["ncclAllReduce"]), "NCCL")

    def test_the_first_binding_counts(self):
        log = ("binding file a [0] to b [0]: normal symbol `ncclSend'\n"
               "binding file b [0] to c [0]: normal symbol `ncclSend'\n"
               "binding file b [0] to c [0]: normal symbol `other'\n")
        self.assertEqual(framework_binding.parse(log, ["ncclSend"]), {"ncclSend": "b"})


class Results(unittest.TestCase):
    def test_what_cannot_be_is_said(self):
        row = {"package": "p", "reaches": "linked", "evidence": "e", "bound": {"none": "NCCL"}}
        self.assertEqual(frameworks.contradictions([row]), [])
        for change in ({"reaches": "no"}, {"bound": {"none": "ringpress"}}, {"bound": {}}):
            self.assertEqual(len(frameworks.contradictions([{**row, **change}])), 1)

    def test_doors(self):
        bound = {"none": "NCCL", "LD_PRELOAD": "ringpress", "LD_LIBRARY_PATH": "NCCL"}
        self.assertEqual(frameworks.doors_that_work(bound, "linked"), ["LD_PRELOAD", "NCCL_NET_PLUGIN"])
        self.assertEqual(frameworks.doors_that_work({}, "contained"), ["NCCL_NET_PLUGIN"])
        self.assertEqual(frameworks.doors_that_work({}, "no"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
