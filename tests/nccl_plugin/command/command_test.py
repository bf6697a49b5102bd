#!/usr/bin/env python3
"""The command `ringpress` as people run it.

usage: ringpress_test.py RINGPRESS LIBRARY_FOLDER   (that of libnccl-net-ringpress.so)
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

LIBRARY_FOLDER = pathlib.Path(sys.argv.pop()).resolve()
PROGRAM = pathlib.Path(sys.argv.pop()).resolve()
SET = {"NCCL_NET_PLUGIN": "ringpress", "NCCL_COLLNET_ENABLE": "1",
       "NCCL_NET_PLUGIN_REF_COUNT": "1", "NCCL_COMM_SPLIT_SHARE_RESOURCES": "1"}


class Command(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("NCCL_", "RINGPRESS", "LD_LIBRARY_PATH",
                                                    "VIRTUAL_ENV", "CONDA_PREFIX"))}
        self.environment["HOME"] = str(self.folder)

    def run_program(self, *arguments, **variables):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False,
                              env={**self.environment, **variables}, timeout=100)
        return done.returncode, done.stdout, done.stderr

    def variables_of_child(self, *options, **variables):
        code, out, error = self.run_program("run", *options, "--", "env", **variables)
        self.assertEqual(code, 0, error)
        return dict(line.split("=", 1) for line in out.splitlines() if "=" in line), error


class Run(Command):
    def test_sets_and_says_what_door_b_needs(self):
        child, error = self.variables_of_child()
        for name, value in SET.items():
            self.assertEqual(child.get(name), value)
            self.assertIn(f"sets {name}={value}\n", error)
        folder = pathlib.Path(child["LD_LIBRARY_PATH"])
        self.assertTrue((folder / "libnccl-net-ringpress.so").samefile(
            LIBRARY_FOLDER / "libnccl-net-ringpress.so"))
        self.assertTrue((folder / "libnccl-tuner-ringpress.so").exists())
        self.assertFalse((folder / "libnccl.so.2").exists(), "it would hide NCCL itself")
        self.assertNotIn("warning", error)

    def test_the_users_own_values_stay(self):
        own = {"NCCL_NET_PLUGIN": "ringpress,other", "NCCL_COLLNET_ENABLE": "2",
               "LD_LIBRARY_PATH": "/some/where:"}
        child, error = self.variables_of_child(**own)
        self.assertEqual(child["NCCL_NET_PLUGIN"], "ringpress,other")
        self.assertEqual(child["NCCL_COLLNET_ENABLE"], "2")
        self.assertTrue(child["LD_LIBRARY_PATH"].endswith(":/some/where:"))
        self.assertIn("keeps NCCL_COLLNET_ENABLE=2 (environment)", error)

    def test_so_do_those_of_nccls_files(self):
        (self.folder / ".nccl.conf").write_text("# NCCL_ALGO=Ring\nNCCL_COLLNET_ENABLE=0\n")
        child, error = self.variables_of_child()
        self.assertNotIn("NCCL_COLLNET_ENABLE", child)
        self.assertIn("NCCL_COLLNET_ENABLE=0: NCCL does not use CollNet", error)
        self.assertNotIn("NCCL_ALGO", error)
        other = self.folder / "other.conf"
        other.write_text("NCCL_PROTO=LL\n")
        _, error = self.variables_of_child(NCCL_CONF_FILE=str(other))
        self.assertIn("sets NCCL_COLLNET_ENABLE=1", error)
        self.assertIn("NCCL_PROTO=LL: ", error)

    def test_warns_of_what_silences_it(self):
        for variables in ({"NCCL_NET": "Socket"}, {"NCCL_NET_PLUGIN": "none"},
                          {"NCCL_ALGO": "Ring"}, {"NCCL_COLLNET_ENABLE": "0"},
                          {"NCCL_TUNER_PLUGIN": "other"}, {"NCCL_PROFILER_PLUGIN": "other"},
                          {"RINGPRESS": "off"}, {"RINGPRESS": "of"}, {"RINGPRESS_CODEK": "q4"}):
            _, error = self.variables_of_child(**variables)
            name, value = next(iter(variables.items()))
            lines = [line for line in error.splitlines() if "warning" in line and name in line]
            self.assertEqual(len(lines), 1, error)
            self.assertIn(value if name != "RINGPRESS_CODEK" else "RINGPRESS_CODEC", lines[0])

    def test_warns_of_what_the_library_would_refuse(self):
        for name, value in (("RINGPRESS_CODEC", "q44"), ("RINGPRESS_MIN_BYTES", "many"),
                            ("RINGPRESS_NEXT_NET_PLUGIN", "no-such-network"),
                            ("RINGPRESS_NEXT_NET_PLUGIN", "libc.so.6")):
            line = self.only_warning(**{name: value})
            self.assertIn(name, line)
            self.assertIn(value, line)
            self.assertRegex(line, r"; .*unset it")

    def test_names_a_command_that_it_does_not_know(self):
        code, _, error = self.run_program("bogus")
        self.assertEqual(code, 2)
        self.assertEqual(error, 'ringpress: there is no command "bogus"; '
                                'there are run, doctor, params, plan, schedule, explain, estimate and report\n')

    def only_warning(self, **variables):
        _, error = self.variables_of_child(**variables)
        lines = [line for line in error.splitlines() if "warning" in line]
        self.assertEqual(len(lines), 1, error)
        return lines[0]

    def test_warns_of_what_is_not_this_library(self):
        for name in ("NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN"):
            line = self.only_warning(**{name: "notringpress"})
            self.assertRegex(line, rf"{name}=notringpress: .*; unset it")
            for own in ("ringpress", "/a/b/libnccl-net-ringpress.so"):
                _, error = self.variables_of_child(**{name: own})
                self.assertNotIn("warning", error)

    def test_reads_lists_as_nccl_does(self):
        for algorithms in ("^CollNetDirect", "allreduce:CollNetChain;broadcast:ring", "^Ring"):
            _, error = self.variables_of_child(NCCL_ALGO=algorithms)
            self.assertNotIn("warning", error)
        for algorithms in ("allreduce:ring", "^CollNetDirect,CollNetChain,NVLS", "CollNet"):
            line = self.only_warning(NCCL_ALGO=algorithms)
            self.assertRegex(line, rf"NCCL_ALGO={re.escape(algorithms)}: .*; .*unset it")

    def test_warns_of_interfaces_that_are_not_there(self):
        for name in ("RINGPRESS_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            for value in ("nosuch0", "=l", "^" + ",".join(os.listdir("/sys/class/net"))):
                line = self.only_warning(**{name: value})
                self.assertIn(f"{name}={value} ", line)
                self.assertRegex(line, r"there are: .*lo.*; name one of those that are up, or unset it")
            _, error = self.variables_of_child(**{name: "lo"})
            self.assertNotIn("warning", error)
        line = self.only_warning(RINGPRESS_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="nosuch0")
        self.assertIn("NCCL_SOCKET_IFNAME=nosuch0 ", line)

    def test_warns_of_statistics_that_cannot_be_written(self):
        (self.folder / "link").symlink_to("elsewhere")
        for value in ("", "/no/file", "/link", "/missing/"):
            line = self.only_warning(RINGPRESS_STATS=f"{self.folder}{value}")
            self.assertRegex(line, rf"RINGPRESS_STATS={self.folder}{value}: .*; name a file .*unset it")
        if os.geteuid() != 0:
            read_only = self.folder / "read-only"
            read_only.touch(0o400)
            self.assertIn("Permission denied", self.only_warning(RINGPRESS_STATS=str(read_only)))
        new = self.folder / "new"
        for value in (new, "/dev/null"):
            _, error = self.variables_of_child(RINGPRESS_STATS=str(value))
            self.assertNotIn("warning", error)
        self.assertFalse(new.exists(), "looking must not make it")

    def test_warns_of_codecs_that_the_plugin_cannot_use(self):
        for codec in ("powersgd", "randk:density=0.01"):
            line = self.only_warning(RINGPRESS_CODEC=codec)
            self.assertRegex(line, rf"RINGPRESS_CODEC={codec}: .*compresses nothing; choose")
        for codec in ("topk", "qsgd", "q4", "lossless", "auto"):
            _, error = self.variables_of_child(RINGPRESS_CODEC=codec)
            self.assertNotIn("warning", error)
        _, error = self.variables_of_child(RINGPRESS_CODEC="topk", NCCL_PROFILER_PLUGIN="other")
        self.assertIn("topk with NCCL_PROFILER_PLUGIN=other: ", error)

    def test_a_dry_run_starts_nothing(self):
        code, out, error = self.run_program("run", "--dry-run", "--", "touch", self.folder / "x")
        self.assertEqual((code, out), (0, ""))
        self.assertIn("sets NCCL_NET_PLUGIN=ringpress", error)
        self.assertFalse((self.folder / "x").exists())
        self.assertEqual(self.run_program("run", "--dry-run")[0], 0)

    def test_a_plugin_that_cannot_be_loaded_is_told(self):
        folder = self.folder / "cut"
        folder.mkdir()
        shutil.copyfile(LIBRARY_FOLDER / "libnccl-net-ringpress.so", folder / "libnccl-net-ringpress.so")
        words = ("run", "--library", folder, "--dry-run", "--", "true")
        self.assertNotIn("warning", self.run_program(*words)[2])
        for percent in (50, 0):
            size = (folder / "libnccl-net-ringpress.so").stat().st_size
            os.truncate(folder / "libnccl-net-ringpress.so", size * percent // 100)
            code, _, error = self.run_program(*words)
            self.assertEqual(code, 0)
            self.assertIn("warning: NCCL will run without this library: ", error)

    def test_the_exit_status_is_that_of_the_command(self):
        self.assertEqual(self.run_program("run", "--", "sh", "-c", "exit 7")[0], 7)
        self.assertEqual(self.run_program("run", "--", "sh", "-c", "kill -9 $$")[0], -9)
        self.assertEqual(self.run_program("run", "--", "no-such-command")[0], 127)
        self.assertEqual(self.run_program("run", "--", "/etc/passwd")[0], 126)

    def test_arguments_reach_the_command_unchanged(self):
        code, out, _ = self.run_program("run", "--", "printf", "%s|", "--json", "--", "-h", "a b", "")
        self.assertEqual((code, out), (0, "--json|--|-h|a b||"))

    def test_dashes_may_be_left_out(self):
        self.assertEqual(self.run_program("run", "true")[0], 0)
        self.assertEqual(self.run_program("run", "sh", "-c", "exit 7")[0], 7)
        code, out, _ = self.run_program("run", "--library", str(LIBRARY_FOLDER), "echo", "--json", "--", "-x")
        self.assertEqual((code, out), (0, "--json -- -x\n"))
        code, out, _ = self.run_program("run", f"--library={LIBRARY_FOLDER}", "--", "echo", "--", "a")
        self.assertEqual((code, out), (0, "-- a\n"))
        code, out, _ = self.run_program("run", "--dry-run", "echo", "never")
        self.assertEqual((code, out), (0, ""))

    def test_another_folder(self):
        code, _, error = self.run_program("run", "--library", self.folder, "--", "true")
        self.assertEqual(code, 125)
        self.assertIn("libnccl-net-ringpress.so", error)
        shutil.copy(LIBRARY_FOLDER / "libnccl-net-ringpress.so", self.folder)
        child, error = self.variables_of_child("--library", str(self.folder))
        self.assertEqual(child["LD_LIBRARY_PATH"], str(self.folder))
        self.assertNotIn("warning", error)
        (self.folder / "libnccl.so.2").write_bytes(b"")
        _, error = self.variables_of_child("--library", str(self.folder))
        self.assertIn("holds a libnccl.so.2 too", error)

    def test_bad_usage(self):
        for arguments in ((), ("run",), ("run", "--"), ("run", "--no-such", "env"), ("walk",), ("doctor", "x"),
                          ("run", "--no-such", "--", "env"), ("params", "--", "env"),
                          ("run", "--library")):
            code, out, error = self.run_program(*arguments)
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertNotEqual(error, "", arguments)
        code, out, _ = self.run_program("--help")
        self.assertEqual(code, 0)
        self.assertIn("doctor", out)


class Params(Command):
    def params(self, **variables):
        code, out, error = self.run_program("params", "--json", **variables)
        rows = {row["name"]: row for row in json.loads(out)}
        refused = [name for name, row in rows.items() if "mistake" in row]
        self.assertEqual(code, 1 if refused else 0, error)
        for name in refused:
            self.assertIn(name, error)
        return rows

    def test_every_setting_with_its_default(self):
        rows = self.params()
        self.assertEqual(rows["RINGPRESS_MIN_BYTES"]["value"], "65536")
        for name, row in rows.items():
            self.assertEqual(row["origin"], "default", name)
            self.assertEqual(row["value"], row["default"], name)
            self.assertTrue(row["meaning"], name)

    def test_where_a_value_comes_from(self):
        (self.folder / ".nccl.conf").write_text("RINGPRESS_CODEC=q2\nRINGPRESS_MIN_BYTES=1\n")
        rows = self.params(RINGPRESS_MIN_BYTES="7", RINGPRESS_SECRET="very secret", RINGPRESS_EF="")
        self.assertEqual(rows["RINGPRESS_CODEC"]["value"], "q2")
        self.assertEqual(rows["RINGPRESS_CODEC"]["origin"], str(self.folder / ".nccl.conf"))
        self.assertEqual(rows["RINGPRESS_MIN_BYTES"]["value"], "7")
        self.assertEqual(rows["RINGPRESS_MIN_BYTES"]["origin"], "environment")
        self.assertEqual(rows["RINGPRESS_EF"]["origin"], "default")
        self.assertNotIn("very secret", json.dumps(rows))

    def test_coordinate_scales_that_no_call_has(self):
        as_auto = "RINGPRESS_EF=scales is as auto: "
        for settings, note in (({"RINGPRESS_CODEC": "topk"}, as_auto + "topk takes no coordinate scales"),
                               ({"RINGPRESS_ADJUST_STEPS": "9"}, as_auto + "calls with levels"),
                               ({"RINGPRESS_BACKEND": "cuda"}, None),
                               ({"RINGPRESS_CODEC": "q4"}, None), ({}, None)):
            found = self.params(RINGPRESS_EF="scales", **settings)["RINGPRESS_EF"].get("note")
            self.assertTrue(found is None if note is None else (found or "").startswith(note), (settings, found))

    def test_a_mistake_is_named(self):
        rows = self.params(RINGPRESS_MIN_BYTES="many", RINGPRESS_CODEC="q44", RINGPRESS="onn")
        for name in ("RINGPRESS_MIN_BYTES", "RINGPRESS_CODEC", "RINGPRESS"):
            self.assertIn("mistake", rows[name])
            self.assertIn("instead", rows[name])
            self.assertEqual(rows[name]["value"], rows[name]["default"])
        self.assertEqual(rows["RINGPRESS_CODEC"]["given"], "q44")
        self.assertNotIn("mistake", rows["RINGPRESS_EF"])

    def test_what_the_library_ignores_is_named(self):
        rows = self.params(RINGPRESS_CODCE="q8", NCCL_DEBUG="LOUD")
        self.assertIn("maybe RINGPRESS_CODEC?", rows["RINGPRESS_CODCE"]["warning"])
        self.assertIn("NCCL_DEBUG=LOUD is ignored", rows["NCCL_DEBUG"]["warning"])
        self.assertNotIn("warning", rows["RINGPRESS_CODEC"])

    def test_what_a_setting_names_is_looked_at(self):
        for name, value in (("RINGPRESS_TOPOLOGY", "/proc/nope"), ("NCCL_COMM_ID", "foo"),
                            ("RINGPRESS_SOCKET_IFNAME", "nope0"), ("NCCL_SOCKET_IFNAME", "nope0")):
            row = self.params(**{name: value})[name]
            self.assertTrue(row["mistake"].startswith(f"{name}={value}"), row)
            code, out, _ = self.run_program("params", **{name: value})
            self.assertEqual(code, 1)
            self.assertIn(f"    mistake: {name}={value}", out)

    def test_for_people(self):
        code, out, error = self.run_program("params", RINGPRESS_CODEC="nonsense")
        self.assertEqual(code, 1)
        self.assertIn('ringpress params: refused: RINGPRESS_CODEC=nonsense: unknown codec "nonsense"', error)
        self.assertIn('RINGPRESS_MIN_BYTES=65536  (default; default "65536"', out)
        self.assertIn("RINGPRESS_CODEC=nonsense  (refused, from environment; ", out)
        self.assertIn('    mistake: RINGPRESS_CODEC=nonsense: unknown codec "nonsense"', out)
        self.assertIn("    instead: no communicator is made with it", out)
        self.assertEqual(out.count("    mistake: "), 1)

    def test_a_secret_is_never_shown(self):
        _, out, _ = self.run_program("params", RINGPRESS_SECRET="very secret")
        self.assertIn("RINGPRESS_SECRET=(not shown)  (environment; ", out)
        self.assertNotIn("very secret", out)


class Doctor(Command):
    def doctor(self, **variables):
        code, out, error = self.run_program("doctor", "--json", **variables)
        self.assertIn(code, (0, 1), error)
        record = json.loads(out)
        problems = [row for row in record["findings"] if row["level"] == "problem"]
        self.assertEqual(code, 1 if problems else 0)
        return record

    def texts(self, record, level):
        return "\n".join(row["text"] for row in record["findings"] if row["level"] == level)

    def test_names_what_is_missing_and_what_to_do(self):
        record = self.doctor()
        problems = self.texts(record, "problem")
        self.assertIn("NCCL would not find this library", problems)
        self.assertIn("NCCL_NET_PLUGIN is not set", problems)
        for row in record["findings"]:
            self.assertTrue(row["level"] != "problem" or row["remedy"], row)
        door_a = [row["text"] for row in record["findings"] if row["about"] == "door A"]
        self.assertIn("/libringpress-preload.so", "\n".join(door_a))

    def test_what_run_sets_is_enough(self):
        code, out, error = self.run_program("run", "--", PROGRAM, "doctor", "--json")
        self.assertIn(code, (0, 1), error)
        record = json.loads(out)
        self.assertTrue(record["plugin"].endswith("libnccl-net-ringpress.so"))
        for level in ("problem", "warning"):
            for text in ("not find", "is not set"):
                self.assertNotIn(text, self.texts(record, level).replace("do not find it by that", ""))

    def test_sees_the_library_for_host_memory(self):
        host = LIBRARY_FOLDER / "host" / "libnccl.so.2"
        self.assertTrue(host.exists(), f"{host} is not built")
        record = self.doctor(LD_LIBRARY_PATH=str(host.parent))
        self.assertTrue(record["nccl"][0]["ringpress"])
        self.assertIn("door C", [row["about"] for row in record["findings"] if row["level"] == "ok"])
        self.assertIn("do not use the GPU", self.texts(record, "warning"))

    def test_the_folder_of_the_libraries_hides_no_nccl(self):
        record = self.doctor(LD_LIBRARY_PATH=str(LIBRARY_FOLDER))
        self.assertFalse([row for row in record["nccl"] if row["ringpress"]])
        remedies = [row["remedy"] for row in record["findings"] if row["about"] == "door C"]
        self.assertIn(f"{LIBRARY_FOLDER}/host first into LD_LIBRARY_PATH", "".join(remedies))

    def test_an_nccl_that_is_none(self):
        (self.folder / "libnccl.so.2").write_text("not a library\n" * 1000)
        record = self.doctor(LD_LIBRARY_PATH=str(self.folder))
        self.assertIn("does not begin with an ELF header", record["nccl"][0]["problem"])
        self.assertIn("an NCCL that cannot be loaded", self.texts(record, "problem"))

    def test_an_nccl_in_pythons_packages(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        self.assertIsNotNone(compiler, "no C compiler, though this was built with one")
        folder = self.folder / "nvidia/nccl/lib"
        folder.mkdir(parents=True)
        (self.folder / "nccl.c").write_text(
            'const char* names[] = {"ncclNetPlugin_v7", "ncclNetPlugin_v8", "ncclTunerPlugin_v1"};\n'
            "int ncclGetVersion(int* version) { *version = 22005; return 0; }\n")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "libnccl.so.2",
                        self.folder / "nccl.c"], check=True)
        record = self.doctor(PYTHONPATH=str(self.folder))
        found = [row for row in record["nccl"] if row["path"].startswith(str(self.folder))]
        self.assertEqual([row["version"] for row in found], ["2.20.5"])
        self.assertEqual(found[0]["takes"]["ncclNetPlugin"], 8)
        self.assertEqual(found[0]["takes"]["ncclTunerPlugin"], 0)
        self.assertIn("NCCL 2.20.5 takes from this library: net v8, CollNet none",
                      self.texts(record, "problem"))

    def test_conflicts_and_settings(self):
        record = self.doctor(NCCL_NET="IB", NCCL_PROFILER_PLUGIN="inspector", RINGPRESS_CODEC="q44",
                             RINGPRESS_MIN_BYTE="3", RINGPRESS="observe")
        self.assertIn("NCCL_NET=IB", self.texts(record, "problem"))
        self.assertIn("q44", self.texts(record, "problem"))
        warnings = self.texts(record, "warning")
        for text in ("NCCL_PROFILER_PLUGIN=inspector", "RINGPRESS_MIN_BYTES?", "RINGPRESS=observe"):
            self.assertIn(text, warnings)

    def test_what_preloading_lacks(self):
        compiler = shutil.which("cc") or shutil.which("gcc")
        self.assertIsNotNone(compiler, "no C compiler, though this was built with one")
        def library(name, source):
            (self.folder / "source.c").write_text(source)
            subprocess.run([compiler, "-shared", "-fPIC", "-o", self.folder / name,
                            self.folder / "source.c"], check=True)
            return str(self.folder / name)
        real = library("real.so", "int ncclGetVersion(int* version) { *version = 22809; return 0; }\n")
        other = library("other.so", "int nothing;\n")
        library("libringpress-cuda.so", "int nothing;\n")
        text = lambda record: "\n".join(row["text"] for row in record["findings"]
                                        if row["about"] == "door A")
        found = self.doctor(RINGPRESS_REAL_NCCL=real)
        self.assertNotIn("RINGPRESS_REAL_NCCL", text(found))
        self.assertNotIn("no NCCL is seen", text(found))
        for value, why in ((other, "it is not an NCCL library"), ("real.so", "absolute path"),
                           (str(LIBRARY_FOLDER / "libringpress-preload.so"), "not an NCCL library"),
                           (str(LIBRARY_FOLDER / "host/libnccl.so.2"), "this library for host memory")):
            problems = self.texts(self.doctor(RINGPRESS_REAL_NCCL=value), "problem")
            self.assertRegex(problems, f"RINGPRESS_REAL_NCCL={re.escape(value)}: .*{why}")
        if not (LIBRARY_FOLDER / "libringpress-cuda.so").exists():  # Found beside the library first.
            self.assertIn("there are no kernels (", text(self.doctor()))
            self.assertRegex(text(self.doctor(LD_LIBRARY_PATH=str(self.folder))),
                             "no kernels .*has no ringpress_cuda_open")
            library("libringpress-cuda.so", "void ringpress_cuda_open(void) {}\n")
            self.assertRegex(text(self.doctor(LD_LIBRARY_PATH=str(self.folder))),
                             "no kernels .*is of another build than this library")

    def test_this_library_is_no_next_plugin(self):
        plugin = str(LIBRARY_FOLDER / "libnccl-net-ringpress.so")
        record = self.doctor(RINGPRESS_NEXT_NET_PLUGIN=plugin)
        self.assertIn("is ringpress itself", self.texts(record, "problem"))
        code, _, error = self.run_program("run", "--dry-run", RINGPRESS_NEXT_NET_PLUGIN=plugin)
        self.assertEqual(code, 0)
        self.assertIn("is ringpress itself", error)

    def test_statistics_that_cannot_be_written(self):
        file = self.folder / "statistics"
        for path in ("/proc/statistics", "/no/such/folder/statistics", str(self.folder)):
            self.assertIn(f"RINGPRESS_STATS={path}: ",
                          self.texts(self.doctor(RINGPRESS_STATS=path), "warning"))
        for _ in range(2):
            self.assertNotIn("RINGPRESS_STATS",
                             self.texts(self.doctor(RINGPRESS_STATS=str(file)), "warning"))
            self.assertEqual(list(self.folder.glob(".ringpress*")), [])
            file.write_text("a line\n")

    def test_what_settings_name_on_this_machine(self):
        record = self.doctor(RINGPRESS_SOCKET_IFNAME="nosuch0", NCCL_SOCKET_IFNAME="nosuch1",
                             RINGPRESS_STATS=str(self.folder), RINGPRESS_CODEC="powersgd")
        problems = self.texts(record, "problem")
        for text in ("RINGPRESS_SOCKET_IFNAME=nosuch0 ", "NCCL_SOCKET_IFNAME=nosuch1 ",
                     "RINGPRESS_CODEC=powersgd: "):
            self.assertIn(text, problems)
        self.assertIn(f"RINGPRESS_STATS={self.folder}: ", self.texts(record, "warning"))

    def test_for_people(self):
        code, out, _ = self.run_program("doctor")
        self.assertEqual(code, 1)
        for line in out.splitlines():
            self.assertRegex(line, r"^(ok       |warning  |problem  |         -> )")


class Programs(Command):
    def test_output_that_cannot_be_written_is_an_error(self):
        for name, *arguments in (["ringpress", "params"], ["ringpress", "params", "--json"],
                                 ["ringpress", "--help"], ["all_reduce_perf", "--help"],
                                 ["codec_perf", "--help"], ["codec_accuracy", "--help"],
                                 ["collnet_perf", "--help"]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([PROGRAM.parent / name, *arguments], stdout=full, check=False,
                                      stderr=subprocess.PIPE, text=True, timeout=100,
                                      env=self.environment)
            self.assertEqual(done.returncode, 1, (name, arguments))
            self.assertRegex(done.stderr, f"{name}: (standard output: |cannot write)")
            whole = subprocess.run([PROGRAM.parent / name, *arguments], capture_output=True,
                                   check=False, timeout=100, env=self.environment)
            self.assertEqual(whole.returncode, 0, (name, arguments))

    def test_collnet_perf_needs_a_folder(self):
        for arguments in ([], ["--folder", str(self.folder / "none")], ["--folder", str(PROGRAM)],
                          ["--folder", str(self.folder), "--bytes", "many"]):
            done = subprocess.run([PROGRAM.parent / "collnet_perf", *arguments], check=False,
                                  capture_output=True, text=True, timeout=100,
                                  env=self.environment)
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertIn("--folder" if "--bytes" not in arguments else "--bytes", done.stderr)


if __name__ == "__main__":
    unittest.main()
