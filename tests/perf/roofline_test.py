"""roofline.py counts the instructions of the way that is taken, and predicts from them.

usage: roofline_test.py PERF_DIR
"""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(sys.argv.pop(1))))
import roofline  # noqa: E402
import sass  # noqa: E402

# A loop: loads by 16 bytes, or by 4 where the address is odd; a store by one lane; a rare call; a
# second store that not all work has.
LOOP = """
\t.section\t.text._Z1kPf,"ax",@progbits
.text._Z1kPf:
        /*0000*/                   S2R R0, SR_TID.X ;
.L_x_1:
        /*0010*/                   LOP3.LUT P0, RZ, R2, 0xf, RZ, 0xc0, !PT ;
        /*0020*/               @P0 BRA `(.L_x_2) ;
        /*0030*/                   LDG.E.128 R4, desc[UR6][R2.64] ;
        /*0040*/               @P1 LDG.E.U16 R8, desc[UR6][R2.64] ;
        /*0050*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0060*/                   LDG.E R4, desc[UR6][R2.64] ;
.L_x_3:
        /*0070*/                   FCHK P2, R4, R5 ;
        /*0080*/              @!P2 BRA `(.L_x_4) ;
        /*0090*/                   CALL.REL.NOINC `(.L_x_9) ;
.L_x_4:
        /*00a0*/                   BRA.DIV UR4, `(.L_x_2) ;
        /*00b0*/                   FADD R4, R4, R5 ;
        /*00c0*/                   SHFL.BFLY PT, R6, R4, 0x1, 0x1f ;
        /*00d0*/                   IMAD.MOV.U32 R5, RZ, RZ, R6 ;
        /*00e0*/               @P3 STG.E.U16 desc[UR6][R2.64], R5 ;
        /*00f0*/               @P4 BRA `(.L_x_5) ;
        /*0100*/                   STG.E.128 desc[UR6][R2.64], R4 ;
.L_x_5:
        /*0110*/              @!P0 BRA `(.L_x_1) ;
        /*0120*/                   EXIT ;
.L_x_9:
        /*0130*/                   RET.REL.NODEC R2 `(_Z1kPf) ;
"""


class Counting(unittest.TestCase):
    def setUp(self):
        (self.name, self.kernel), = sass.read(LOOP).items()

    def way(self, **work):
        kinds = {"load": "LDG.16", "odd": "LDG.4", "scale": "STG.2", "store": "STG.16",
                 "shuffle": "SHFL"}
        return [instruction.address for instruction in sass.cheapest_round(
            self.kernel, {kinds[name]: count for name, count in work.items()})]

    def test_reads_instructions(self):
        self.assertEqual((self.name, len(self.kernel)), ("_Z1kPf", 20))
        branch = self.kernel[2]
        self.assertEqual((branch.predicate, branch.name, branch.targets), ("@P0", "BRA", [0x60]))
        self.assertEqual([instruction.work for instruction in self.kernel[3:7]],
                         ["LDG.16", "LDG.2", None, "LDG.4"])

    def test_the_work_decides_which_branches_are_taken(self):
        aligned = self.way(load=1, shuffle=1)
        self.assertEqual(aligned, [0x10, 0x20, 0x30, 0x40, 0x50, 0x70, 0x80, 0xa0, 0xb0, 0xc0, 0xd0,
                                   0xe0, 0xf0, 0x110])
        self.assertEqual(self.way(load=1, scale=1, shuffle=1), aligned)
        self.assertEqual(self.way(load=1, store=1, shuffle=1), aligned[:-1] + [0x100, 0x110])
        self.assertIn(0x60, self.way(odd=1, shuffle=1))

    def test_work_that_no_way_does_is_said(self):
        for work in ({"load": 2, "shuffle": 1}, {"load": 1}, {"load": 1, "shuffle": 1, "odd": 1}):
            with self.assertRaises(ValueError):
                self.way(**work)
        with self.assertRaises(ValueError):
            sass.loop_of(self.kernel[:2])

    def test_pipes(self):
        found = roofline.cycles(sass.cheapest_round(self.kernel, {"LDG.16": 1, "SHFL": 1}))
        # FADD; IMAD; LOP3; FCHK; two loads, a shuffle and a store; 14 in all.
        self.assertEqual(found, {"issue": 14 / 4, "FMA": 1 / 4, "IMAD": 1 / 2, "ALU": 1 / 2, "XU": 2,
                                 "LSU": 4})


class Prediction(unittest.TestCase):
    def test_the_longest_time_counts(self):
        clocks = dict.fromkeys(roofline.RATES, 1)
        self.assertEqual(roofline.predict((4, 4), clocks, 64, 3.35e12), (1, "memory"))
        memory = 1024 * 8 * 132 / 3.35e12
        share, limit = roofline.predict((4, 4), {**clocks, "ALU": 2 * memory * roofline.CLOCK}, 64,
                                        3.35e12)
        self.assertEqual((round(share, 9), limit), (0.5, "ALU"))
        self.assertEqual(roofline.predict((4, 4), clocks, 1, 3.35e12)[1], "latency")

    def test_occupancy(self):
        self.assertEqual(roofline.resident_warps(32, 0), 64)
        self.assertEqual(roofline.resident_warps(168, 0), 12)
        self.assertEqual(roofline.resident_warps(161, 0), 12)
        self.assertEqual(roofline.resident_warps(32, 100000), 8)

    def test_bytes_are_those_of_the_wire_format(self):
        self.assertEqual(sum(roofline.bytes_of_value("quantise", "q4", 4, "float32")), 4.515625)
        self.assertEqual(sum(roofline.bytes_of_value("hop", "q8", 8, "bfloat16")), 4.03125)
        self.assertEqual(sum(roofline.bytes_of_value("error feedback", "q4", 4, "bfloat16")),
                         10.515625)


if __name__ == "__main__":
    unittest.main()
