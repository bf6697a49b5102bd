"""kernel_resources.py understands the compiler's report, and no kernel of the kept report spills.

usage: kernel_resources_test.py RESULT
"""
import json
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "perf"))
import kernel_resources  # noqa: E402

REPORT = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1av' for 'sm_90'
ptxas info    : Function properties for _Z1av
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 40 registers, used 0 barriers, 256 bytes smem
ptxas info    : Compiling entry function '_Z1bv' for 'sm_80'
ptxas info    : Function properties for _Z1bv
    {stack} bytes stack frame, {spill} bytes spill stores, 0 bytes spill loads
ptxas info    : Used 128 registers, used 0 barriers
"""


class KernelResources(unittest.TestCase):
    def test_reads_a_report(self):
        first, second = kernel_resources.read_report(REPORT.format(stack=0, spill=0))
        self.assertEqual(first, {"kernel": "_Z1av", "architecture": "sm_90", "stack_bytes": 0,
                                 "spill_store_bytes": 0, "spill_load_bytes": 0, "registers": 40,
                                 "static_shared_bytes": 256})
        self.assertEqual((second["architecture"], second["registers"]), ("sm_80", 128))

    def test_finds_local_memory(self):
        for stack, spill in ((8, 0), (0, 8)):
            kernels = kernel_resources.read_report(REPORT.format(stack=stack, spill=spill))
            self.assertEqual(len(kernel_resources.offences(kernels)), 1)

    def test_finds_a_report_without_content(self):
        self.assertTrue(kernel_resources.offences([]))
        self.assertTrue(kernel_resources.offences([{"kernel": "a", "architecture": "sm_90"}]))

    def test_no_kernel_uses_local_memory(self):
        result = json.loads(pathlib.Path(RESULT).read_text(encoding="utf-8"))
        kernels = kernel_resources.unpack(result)
        # The hop of q4 keeps 8 and 24 bytes outside its registers (perf/missed.md, "Kernels on a GPU").
        known = "hop_kernel<NearestFormat<AnyHardware, 4>"
        offences = [line for line in kernel_resources.offences(kernels) if not line.startswith(known)]
        self.assertEqual(offences, [])
        names = {kernel["kernel"] for kernel in kernels}
        hopper = {kernel["kernel"] for kernel in kernels if kernel["architecture"] == "sm_90"}
        self.assertEqual(names, hopper)

    def test_the_kept_report_has_the_kernels_of_every_task(self):
        """A report that was kept before they were written says nothing of what they spill."""
        result = json.loads(pathlib.Path(RESULT).read_text(encoding="utf-8"))
        kept = " ".join(row["kernel"] for row in result["kernels"])
        sources = (ROOT / "compress_kernels").glob("*/*.cu")
        tasks = re.findall(r"^RINGPRESS_CUDA_PROJECTION\([\w:]+, \w+::(\w+)\)",
                           "\n".join(path.read_text(encoding="utf-8") for path in sources), re.M)
        self.assertTrue(tasks)
        self.assertEqual([task for task in tasks if not re.search(rf"\b{task}\b", kept)], [])

    def test_what_is_packed_is_unpacked(self):
        kernels = kernel_resources.read_report(REPORT.format(stack=8, spill=0))
        kernels.append({"kernel": "c", "architecture": "sm_90"})
        packed = {"numbers": kernel_resources.NUMBERS, "kernels": kernel_resources.pack(kernels)}
        self.assertEqual(kernel_resources.unpack(packed), kernels)
        self.assertEqual(len(kernel_resources.offences(kernel_resources.unpack(packed))), 2)


if __name__ == "__main__":
    RESULT = sys.argv.pop()
    unittest.main()
