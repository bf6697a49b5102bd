#!/usr/bin/env python3
"""What `ringpress doctor` says of libraries that cannot be used, and of a program's own NCCL.

usage: doctor_test.py RINGPRESS LIBRARY_FOLDER   (that of libnccl-net-ringpress.so)
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_test import LIBRARY_FOLDER, PROGRAM, Command

PLUGIN = "libnccl-net-ringpress.so"
ENGINE = next(LIBRARY_FOLDER.glob("libringpress.so.[0-9]")).name
NCCL = '''const char* names[] = {"ncclNetPlugin_v11", "ncclCollNetPlugin_v11", "ncclTunerPlugin_v5",
                       "ncclProfiler_v5", "ncclEnvPlugin_v1"};
int ncclGetVersion(int* version) { *version = %d; return 0; }
'''


class DoctorCommand(Command):
    """Has a small NCCL of its own, as a real one takes long to look at."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.system = cls.compile(pathlib.Path(folder.name) / "libnccl.so.2", NCCL % 22809).parent

    def setUp(self):
        super().setUp()  # A Python that is found at once: those of some managers are scripts.
        self.environment["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        self.environment["LD_LIBRARY_PATH"] = str(self.system)

    def doctor(self, *arguments, program=PROGRAM, **variables):
        done = subprocess.run([program, "doctor", "--json", *arguments], capture_output=True,
                              text=True, check=False, env={**self.environment, **variables},
                              timeout=100)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        record = json.loads(done.stdout)
        problems = [row for row in record["findings"] if row["level"] == "problem"]
        self.assertEqual(done.returncode, 1 if problems else 0)
        for row in problems:
            self.assertNotEqual(row["remedy"], "", row)
        return record

    def texts(self, record, level, about="door"):
        return "\n".join(row["text"] for row in record["findings"]
                         if row["level"] == level and row["about"].startswith(about))

    @staticmethod
    def compile(path, source, *options):
        compiler = shutil.which("cc") or shutil.which("gcc")
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([compiler, "-shared", "-fPIC", "-o", path, "-x", "c", "-", "-x", "none",
                        *options], input=source, text=True, check=True)
        return path


class Libraries(DoctorCommand):
    """Files in the place of the plugin: each is named, with what is wrong with it."""
    def setUp(self):
        super().setUp()
        self.plugin = self.folder / "lib" / PLUGIN
        self.plugin.parent.mkdir()

    def look(self, **variables):
        return self.doctor(LD_LIBRARY_PATH=f"{self.plugin.parent}:{self.system}",
                           NCCL_NET_PLUGIN="ringpress", NCCL_COLLNET_ENABLE="1", **variables)

    def expect_refused(self, why, **variables):
        record = self.look(**variables)
        self.assertIn(f"NCCL cannot use {PLUGIN}: {self.plugin} ", self.texts(record, "problem"))
        self.assertIn(why, self.texts(record, "problem"))
        self.assertNotIn(f"{PLUGIN} is {self.plugin}", self.texts(record, "ok"))

    def test_a_whole_one_and_a_stripped_one_are_ok(self):
        shutil.copy(LIBRARY_FOLDER / PLUGIN, self.plugin)
        self.assertIn(f"{PLUGIN} is {self.plugin}", self.texts(self.look(), "ok"))
        strip = shutil.which("strip")
        if strip is None:
            self.skipTest("there is no strip")
        subprocess.run([strip, self.plugin], check=True)
        self.assertIn(f"{PLUGIN} is {self.plugin}", self.texts(self.look(), "ok"))

    def test_one_that_is_cut_off(self):
        shutil.copy(LIBRARY_FOLDER / PLUGIN, self.plugin)
        whole = self.plugin.stat().st_size
        for percent in (90, 50, 25):
            os.truncate(self.plugin, whole * percent // 100)
            self.expect_refused(f"is cut short: it has {whole * percent // 100} bytes")
        os.truncate(self.plugin, whole)  # As a copy that was given its size first and broken off.
        self.expect_refused("is damaged")

    def test_what_is_no_library(self):
        self.plugin.write_bytes(b"")
        self.expect_refused("is empty")
        self.plugin.write_text("a text\n" * 100)
        self.expect_refused("is no library: it does not begin with an ELF header")
        self.plugin.unlink()
        self.plugin.mkdir()
        self.expect_refused("is a folder")
        self.plugin.rmdir()
        os.mkfifo(self.plugin)
        self.expect_refused("is no regular file")

    def test_one_for_another_machine(self):
        library = bytearray(self.compile(self.plugin, "int nothing;\n").read_bytes())
        own_class, own_machine = library[4], bytes(library[18:20])
        library[4] = 3 - own_class
        self.plugin.write_bytes(library)
        self.expect_refused("is a library of ")
        library[4] = own_class
        library[18:20] = bytes(2 * [22]) if own_machine != bytes(2 * [22]) else bytes(2)
        self.plugin.write_bytes(library)
        self.expect_refused("is for another processor (ELF machine ")

    def test_one_that_does_not_load(self):
        self.compile(self.plugin,
                     "void none_has_this(void);\nvoid call(void) { none_has_this(); }\n")
        self.expect_refused("undefined symbol: none_has_this")
        needed = self.compile(self.folder / "lib/libneeded.so", "int needed;\n")
        self.compile(self.plugin,
                     "extern int needed;\nint* use(void) { return &needed; }\n", needed)
        needed.unlink()
        self.expect_refused("libneeded.so: cannot open shared object file")
        self.compile(self.plugin, "#include <signal.h>\n__attribute__((constructor)) void f(void)"
                                  " { raise(SIGSEGV); }\n")
        self.expect_refused("the process that tried died of signal 11")
        self.compile(self.plugin, "#include <stdlib.h>\n__attribute__((constructor)) void f(void)"
                                  " { exit(0); }\n")
        self.expect_refused("the process that tried was ended, with exit status 0")

    def test_another_library(self):
        self.compile(self.plugin, "int nothing;\n")
        self.expect_refused("shows none of the tables that NCCL looks up")
        self.compile(self.plugin, 'const char* const ncclNetPlugin_v8[] = {"other"};\n')
        self.expect_refused('is the network plugin "other", not this library')

    def test_the_other_plugins_that_are_named(self):
        shutil.copy(LIBRARY_FOLDER / PLUGIN, self.plugin)
        kinds = ("tuner", "profiler", "env")
        files = {kind: self.plugin.parent / f"libnccl-{kind}-ringpress.so" for kind in kinds}
        def expect(level, text, by_path=False):
            values = {kind: str(files[kind]) if by_path else "ringpress" for kind in kinds}
            said = self.look(**{f"NCCL_{kind.upper()}_PLUGIN": values[kind] for kind in kinds})
            for kind in kinds:
                line = f"NCCL_{kind.upper()}_PLUGIN={values[kind]}: "
                if text is None:
                    self.assertNotIn(line, self.texts(said, level))
                else:
                    self.assertIn(line + text.format(kind=kind, file=files[kind]),
                                  self.texts(said, level))
        expect("warning", "libnccl-{kind}-ringpress.so: cannot open")
        for file in files.values():
            shutil.copy(self.plugin, file)
        expect("problem", None)
        for file in files.values():
            os.truncate(file, file.stat().st_size // 2)
        expect("problem", "{file} is cut short")
        expect("problem", "{file} is cut short", by_path=True)
        for file in files.values():
            self.compile(file, 'const char* const ncclNetPlugin_v8[] = {"ringpress"};\n')
        expect("problem", "{file} shows no {kind} table")

    def test_the_next_plugin_is_loaded_too(self):
        plugin = self.folder / "libnccl-net-next.so"
        shutil.copy(LIBRARY_FOLDER / PLUGIN, plugin)
        os.truncate(plugin, plugin.stat().st_size // 2)
        problems = self.texts(self.doctor(RINGPRESS_NEXT_NET_PLUGIN=str(plugin)), "problem")
        self.assertIn(f"RINGPRESS_NEXT_NET_PLUGIN: {plugin} is cut short", problems)

    def test_so_is_an_nccl(self):
        nccl = self.folder / "libnccl.so.2"
        shutil.copy(LIBRARY_FOLDER / "host/libnccl.so.2", nccl)
        os.truncate(nccl, nccl.stat().st_size * 9 // 10)
        record = self.doctor(LD_LIBRARY_PATH=str(self.folder), RINGPRESS_REAL_NCCL=str(nccl))
        self.assertIn(f"(found by the loader): {nccl} is cut short", self.texts(record, "problem"))
        self.assertIn(f"RINGPRESS_REAL_NCCL={nccl}: {nccl} is cut short",
                      self.texts(record, "problem", "door A"))
        self.assertNotIn("libnccl.so.2 is", self.texts(record, "ok", "door C"))


class Installed(DoctorCommand):
    """Libraries beside the program: those of door A, and the plugin that `run` would take."""
    def setUp(self):
        super().setUp()
        self.program = self.folder / "bin" / "ringpress"
        self.program.parent.mkdir()
        shutil.copy(PROGRAM, self.program)
        for name in (f"ringpress/{PLUGIN}", "libringpress-preload.so", "preload/libnccl.so.2",
                     ENGINE):
            (self.folder / "lib" / name).parent.mkdir(parents=True, exist_ok=True)
            os.symlink((LIBRARY_FOLDER / name).resolve(), self.folder / "lib" / name)

    def cut(self, name):
        path = self.folder / "lib" / name
        whole = path.resolve()
        path.unlink()
        shutil.copy(whole, path)
        os.truncate(path, path.stat().st_size * 9 // 10)
        return path

    def look(self):
        return self.doctor(program=self.program)

    def test_whole_ones(self):
        record = self.look()
        self.assertIn("libringpress-preload.so", self.texts(record, "ok", "door A"))
        self.assertEqual(self.texts(record, "problem", "door A"), "")
        self.assertIn("NCCL would not find this library", self.texts(record, "problem"))

    def test_what_run_would_take(self):
        path = self.cut(f"ringpress/{PLUGIN}")
        problems = self.texts(self.look(), "problem", "door B")
        self.assertIn(f"`ringpress run` would not help: {path} is cut short", problems)

    def test_each_of_door_a(self):
        for name in ("libringpress-preload.so", "preload/libnccl.so.2", ENGINE):
            path = self.cut(name)
            record = self.look()
            self.assertIn(f"{path} is cut short", self.texts(record, "problem", "door A"))
            self.assertNotIn("LD_PRELOAD=", self.texts(record, "ok", "door A"))
            path.unlink()
            os.symlink((LIBRARY_FOLDER / name).resolve(), path)

    def test_others_in_their_place(self):
        for name, why in (("libringpress-preload.so", "is no library for preloading"),
                          (ENGINE, "has no ringpressOpenEngine"),
                          ("libringpress-cuda.so", "has no ringpress_cuda_open")):
            path = self.folder / "lib" / name
            path.unlink(missing_ok=True)
            self.compile(path, "int nothing;\n")
            self.assertIn(f"{path} {why}", self.texts(self.look(), "problem", "door A"))
            path.unlink()
            if (LIBRARY_FOLDER / name).exists():
                os.symlink((LIBRARY_FOLDER / name).resolve(), path)


class Programs(DoctorCommand):
    """A made-up PyTorch with its NCCL in a package, and another NCCL of the system."""
    def setUp(self):
        super().setUp()
        self.site = self.folder / "site"
        self.torch = self.site / "torch"

    def make_torch(self, tags="--disable-new-dtags", *options):
        """With --disable-new-dtags the folders in the library come before LD_LIBRARY_PATH."""
        package = self.compile(self.site / "nvidia/nccl/lib/libnccl.so.2", NCCL % 23007,
                               "-Wl,-soname,libnccl.so.2")
        (self.torch / "lib").mkdir(parents=True, exist_ok=True)
        (self.torch / "__init__.py").write_text("raise SystemExit('it was imported')\n")
        self.compile(self.torch / "lib/libtorch_cuda.so",
                     "int ncclGetVersion(int*);\nint f(int* v) { return ncclGetVersion(v); }\n",
                     package, f"-Wl,{tags},-rpath,$ORIGIN/../../nvidia/nccl/lib", *options)
        return package

    def judged(self, record):
        """Paths and versions of the NCCLs that the verdict is of."""
        return [(row["path"], row["version"]) for row in record["nccl"] if row["of_program"]]

    def test_pytorchs_own_nccl_is_judged(self):
        package = self.make_torch()
        record = self.doctor(PYTHONPATH=str(self.site))
        self.assertEqual(self.judged(record), [(str(package), "2.30.7")])
        ok = self.texts(record, "ok", "door B")
        self.assertIn(f"NCCL 2.30.7 (of PyTorch in {self.torch}): {package}", ok)
        self.assertIn("NCCL 2.30.7 takes from this library: net v11, CollNet v11", ok)
        self.assertIn("another NCCL, 2.28.9 (found by the loader), which is not judged: "
                      f"{self.system}/libnccl.so.2", ok)
        self.assertNotIn("NCCL 2.28.9 takes from this library", ok)

    def test_the_loader_decides_which_that_is(self):
        self.make_torch("--enable-new-dtags")
        record = self.doctor(PYTHONPATH=str(self.site))
        self.assertEqual(self.judged(record), [(f"{self.system}/libnccl.so.2", "2.28.9")])
        record = self.doctor(PYTHONPATH=str(self.site), LD_LIBRARY_PATH="")
        self.assertEqual([version for _, version in self.judged(record)], ["2.30.7"])

    def test_what_is_preloaded_does_not_hide_it(self):
        package = self.make_torch()
        record = self.doctor(PYTHONPATH=str(self.site),
                             LD_PRELOAD=str(LIBRARY_FOLDER / "preload/libnccl.so.2"))
        self.assertEqual(self.judged(record), [(str(package), "2.30.7")])

    def test_environments_that_are_not_in_the_path(self):
        package = self.make_torch()
        for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
            environment = self.folder / variable
            (environment / "bin").mkdir(parents=True)
            real = pathlib.Path(sys.executable).resolve()
            (environment / "bin/python3").symlink_to(real)
            (environment / "pyvenv.cfg").write_text(f"home = {real.parent}\n")
            version = "python{}.{}".format(*sys.version_info)
            packages = environment / "lib" / version / "site-packages"
            packages.parent.mkdir(parents=True)
            packages.symlink_to(self.site)
            record = self.doctor(**{variable: str(environment)})
            self.assertEqual(self.judged(record), [(str(package), "2.30.7")], variable)

    def test_a_program_that_is_named(self):
        package = self.make_torch()
        (self.folder / "bin").mkdir()
        python = self.folder / "bin/python3"
        python.write_text(f"#!/bin/sh\nPYTHONPATH={self.site} exec {sys.executable} \"$@\"\n")
        script = self.folder / "bin/run-training"
        for first in (f"#!{python}", "#! /usr/bin/env python3", "#!/usr/bin/env -S python3 -u"):
            script.write_text(f"{first}\nraise SystemExit('it was started')\n")
            for program in (python, script):
                program.chmod(0o755)
                path = f"{self.folder}/bin:{self.environment['PATH']}"
                for name in (program, program.name):
                    record = self.doctor(str(name), PATH=path)
                    self.assertEqual(self.judged(record), [(str(package), "2.30.7")], (first, name))

    def test_a_program_that_is_linked_with_nccl(self):
        program = self.folder / "train"
        own = self.compile(self.folder / "own/libnccl.so.2", NCCL % 22707,
                           "-Wl,-soname,libnccl.so.2")
        (self.folder / "main.c").write_text(
            "int ncclGetVersion(int*);\n"
            "int main(void) { int v; return ncclGetVersion(&v) + 77; }\n")
        subprocess.run([shutil.which("cc") or "gcc", "-o", program, self.folder / "main.c", own,
                        f"-Wl,--disable-new-dtags,-rpath,{own.parent}"], check=True)
        self.assertEqual(self.judged(self.doctor(str(program))), [(str(own), "2.27.7")])
        own.unlink()
        record = self.doctor(str(program), LD_LIBRARY_PATH="/nowhere")
        if not self.judged(record):  # Else the machine has one where the loader looks by itself.
            self.assertIn(f"{program} does not find its libnccl.so.2",
                          self.texts(record, "problem"))

    def test_programs_that_say_nothing_of_an_nccl(self):
        for name, why in (("env", "is not linked with libnccl.so.2"),
                          (sys.executable, "has no PyTorch")):
            record = self.doctor(name, PATH="/usr/bin:/bin")
            if self.judged(record):
                continue  # This Python has a PyTorch.
            self.assertIn(why, self.texts(record, "warning", "door B"))
            self.assertIn("every NCCL that a program may load is judged", self.texts(record, "ok"))
        script = self.folder / "script"
        script.write_text("#!/bin/sh\nexit 1\n")
        script.chmod(0o755)
        self.assertIn(f"{script} is a script for /bin/sh: what it starts is not seen",
                      self.texts(self.doctor(str(script)), "warning"))

    def test_no_such_program(self):
        for name in ("no-such-program", str(self.folder), "/etc/passwd"):
            code, out, error = self.run_program("doctor", name)
            self.assertEqual((code, out), (2, ""))
            self.assertIn(f"there is no program {name} that can be started", error)

    def test_a_pytorch_without_cuda_or_without_its_nccl(self):
        package = self.make_torch()
        package.unlink()
        (package.parent / "libnccl.so.2").symlink_to("nowhere")
        record = self.doctor(PYTHONPATH=str(self.site), LD_LIBRARY_PATH="")
        if not record["nccl"]:  # Else the machine has one where the loader looks by itself.
            self.assertIn(f"PyTorch in {self.torch} does not find its libnccl.so.2",
                          self.texts(record, "problem", "door B"))
        (self.torch / "lib/libtorch_cuda.so").unlink()
        record = self.doctor(PYTHONPATH=str(self.site))
        self.assertIn(f"PyTorch in {self.torch} is built without CUDA",
                      self.texts(record, "warning", "door B"))

    def test_an_nccl_that_is_linked_into_pytorch(self):
        self.make_torch()
        self.compile(self.torch / "lib/libtorch_cuda.so", NCCL % 22707)
        record = self.doctor(PYTHONPATH=str(self.site))
        self.assertIn(f"PyTorch in {self.torch} loads no libnccl.so.2",
                      self.texts(record, "warning", "door B"))
        self.assertEqual(self.judged(record), [])


if __name__ == "__main__":
    unittest.main()
