#!/usr/bin/env python3
"""What `cmake --install` makes of a build tree, after it was moved elsewhere.

usage: installed_test.py CMAKE BUILD_FOLDER OPENING_CLIENT FAKE_NCCL [unittest's arguments]
OPENING_CLIENT is a program that opens libnccl.so.2, FAKE_NCCL a stand-in for NVIDIA's.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
import zlib

from install import (BUILD, CMAKE, ENVIRONMENT, KERNELS, MOST_LIBRARY_BYTES, MOST_PROGRAM_BYTES, ROOT,
                     cache_entry, files_below, folder_of, is_elf, keep_manifests, library_bytes, run)

CLIENT, FAKE_NCCL = (pathlib.Path(word).resolve() for word in sys.argv[3:5])
del sys.argv[1:5]
VERSION = cache_entry("CMAKE_PROJECT_VERSION")
LIB = cache_entry("CMAKE_INSTALL_LIBDIR")
LIBRARY = f"libringpress.so.{VERSION}"
KINDS = ("net", "tuner", "profiler", "env")
EXPECTED = {
    "bin/ringpress", "bin/all_reduce_perf",
    "include/ringpress/nccl.h", "include/ringpress/nccl_device.h", "include/ringpress/nccl_types.h",
    "include/ringpress/ringpress.h",
    f"{LIB}/libringpress.so", f"{LIB}/libringpress.so.{VERSION.split('.')[0]}", f"{LIB}/{LIBRARY}",
    f"{LIB}/libringpress-preload.so", f"{LIB}/ringpress/host/libnccl.so.2", f"{LIB}/ringpress/preload/libnccl.so.2",
    f"{LIB}/ringpress/host/libringpress.so.{VERSION.split('.')[0]}",
    *(f"{LIB}/libnccl-{kind}-ringpress.so" for kind in KINDS),
    *(f"{LIB}/ringpress/libnccl-{kind}-ringpress.so" for kind in KINDS),
    f"{LIB}/cmake/ringpress/ringpressConfig.cmake", f"{LIB}/cmake/ringpress/ringpressConfigVersion.cmake",
    f"{LIB}/cmake/ringpress/ringpressConfig-{cache_entry('CMAKE_BUILD_TYPE').lower()}.cmake",
    f"{LIB}/pkgconfig/ringpress.pc",
}
DEBUG = {"bin/.debug/ringpress.debug", "bin/.debug/all_reduce_perf.debug", f"{LIB}/.debug/{LIBRARY}.debug",
         f"{LIB}/.debug/libringpress-preload.so.debug", f"{LIB}/.debug/libnccl-net-ringpress.so.debug",
         f"{LIB}/ringpress/preload/.debug/libnccl.so.2.debug"}


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        keep_manifests(cls)
        folder = folder_of(cls)
        first, cls.prefix = folder / "first", folder / "elsewhere"
        cls.said = run(CMAKE, "--install", BUILD, "--prefix", first)
        cls.without_symbols = files_below(first)
        run(CMAKE, "--install", BUILD, "--prefix", first, "--component", "debug")
        shutil.copytree(first, cls.prefix, symlinks=True)
        run(CMAKE, "--build", BUILD, "--target", "uninstall")
        cls.left = list(first.rglob("*")) if first.exists() else []
        cls.left += BUILD.glob("install_manifest*.txt")
        cls.first, cls.folder = first, folder

    def ringpress(self, *words, **variables):
        done = subprocess.run([self.prefix / "bin/ringpress", *words], capture_output=True, text=True,
                              check=False, timeout=100, env={**ENVIRONMENT, **variables})
        self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: doctor has found a problem.
        return done.stdout

    def test_all_of_it(self):
        documents = {name for name in self.without_symbols if name.startswith("share/doc/ringpress/")}
        self.assertEqual(self.without_symbols - documents - {f"{LIB}/{KERNELS}"}, EXPECTED)
        self.assertEqual(files_below(self.prefix) - self.without_symbols - {f"{LIB}/.debug/{KERNELS}.debug"},
                         DEBUG)

    def test_uninstalling_leaves_nothing(self):
        self.assertEqual(self.left, [])

    def test_what_is_missing_is_built_first(self):
        """As where only a part of a tree was built. Its rules are those of the tree, but for a name."""
        rules = (BUILD / "cmake_install.cmake").read_text()
        lacking = self.folder / "cmake_install.cmake"
        self.assertIn(f"{BUILD}/lib/{LIBRARY}\"", rules)
        lacking.write_text(rules.replace(f"{BUILD}/lib/{LIBRARY}\"", f"{BUILD}/lib/not-built-yet\""))
        said = run(CMAKE, f"-DCMAKE_INSTALL_PREFIX={self.folder}/part",
                   "-DCMAKE_INSTALL_COMPONENT=documentation", "-P", lacking)
        self.assertIn("Building what is to be installed", said)
        self.assertTrue((self.folder / "part/share/doc/ringpress/LICENSE").is_file())

    def test_pages_lead_to_each_other(self):
        documents = self.prefix / "share/doc/ringpress"
        self.assertTrue((documents / "LICENSE").is_file())
        pages = set(documents.rglob("*.md"))
        # The README names pages for users, and pages of folders, which are for those who change the code.
        named = re.findall(r"\]\(([\w/.]+\.md)", (documents / "README.md").read_text())
        wanted = {documents / name for name in named if not name.endswith("README.md")}
        self.assertGreater(len(wanted), 8)
        self.assertEqual(wanted - pages, set())

    def test_is_stripped_and_knows_its_symbols(self):
        files = [path for path in self.prefix.rglob("*") if is_elf(path) and path.suffix != ".debug"]
        self.assertGreaterEqual(len(files), 6)
        for path in files:
            sections = run("readelf", "-S", "-W", path)
            self.assertNotRegex(sections, r"\.debug_(info|line)|\.symtab", path)
            link = self.folder / "link"
            run("objcopy", "--dump-section", f".gnu_debuglink={link}", path, self.folder / "copy")
            words = link.read_bytes()
            self.assertEqual(words[:words.index(b"\0")].decode(), f"{path.name}.debug")
            symbols = path.parent / ".debug" / f"{path.name}.debug"
            self.assertEqual(int.from_bytes(words[-4:], "little"), zlib.crc32(symbols.read_bytes()), path)
            if path.name != KERNELS:  # nvcc writes none.
                self.assertRegex(run("readelf", "-S", "-W", symbols), r"\.debug_info")

    def test_size(self):
        libraries = library_bytes(self.prefix)
        print(f"{libraries} bytes of libraries")
        self.assertLess(libraries, MOST_LIBRARY_BYTES)
        programs = sum(path.stat().st_size for path in (self.prefix / "bin").glob("*") if path.is_file())
        print(f"{programs} bytes of programs")
        self.assertLess(programs, MOST_PROGRAM_BYTES)

    def test_command_takes_codecs_of_its_own_build_alone(self):
        tree = self.folder / "mixed"
        (tree / "bin").mkdir(parents=True)
        (tree / LIB).mkdir(parents=True)
        shutil.copy(self.prefix / "bin/ringpress", tree / "bin")

        def explain():
            done = subprocess.run([tree / "bin/ringpress", "explain", "1M", "float32", "2"], env=ENVIRONMENT,
                                  capture_output=True, text=True, check=False, timeout=100)
            self.assertEqual(done.returncode == 0, done.stderr == "", done.stderr)
            return done.stderr

        library = tree / LIB / f"libringpress.so.{VERSION.split('.')[0]}"
        self.assertIn(f"{library.name}, which is not in {tree / LIB}", explain())
        shutil.copy(self.prefix / LIB / "libringpress-preload.so", library)
        self.assertIn(f"{library} is of another build than this program", explain())
        library.unlink()
        shutil.copy(self.prefix / LIB / LIBRARY, library)
        self.assertEqual(explain(), "")

    def test_names_no_folder_of_its_past(self):
        runpath = "$ORIGIN/" + os.path.relpath(self.prefix / LIB, self.prefix / "bin")
        for path in self.prefix.rglob("*"):
            if is_elf(path):
                paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", run("readelf", "-d", "-W", path))
                self.assertIn(paths, ([], [runpath]), path)
            elif path.suffix in (".pc", ".cmake"):
                text = path.read_text()
                self.assertNotIn(str(BUILD), text, path)
                self.assertNotIn(str(self.first), text, path)

    def test_shows_what_the_build_trees_libraries_show(self):
        layout = ROOT / "tests/layout"
        for library, names in ((LIBRARY, "exports.txt"), ("libnccl-net-ringpress.so", "plugin_exports.txt")):
            run(sys.executable, "-B", layout / "exports_test.py", self.prefix / LIB / library, names)
        for library in ("libringpress-preload.so", "ringpress/preload/libnccl.so.2"):
            run(sys.executable, "-B", layout / "shim_exports_test.py", self.prefix / LIB / library,
                ROOT / "include/ringpress/nccl.h", ROOT / "nccl_plugin/preload/newer_functions.txt")

    def test_commands(self):
        self.assertEqual(self.ringpress("--version").strip(), VERSION)
        self.assertIn("RINGPRESS_CODEC", self.ringpress("params"))
        said = self.ringpress("run", "env")
        self.assertIn(f"LD_LIBRARY_PATH={self.prefix}/{LIB}/ringpress\n", said)
        self.assertIn("NCCL_NET_PLUGIN=ringpress\n", said)
        said = self.ringpress("run", "--door", "A", "env")
        self.assertIn(f"LD_PRELOAD={self.prefix}/{LIB}/ringpress/preload/libnccl.so.2\n", said)
        said = self.ringpress("run", "--door", "C", "env")
        self.assertIn(f"LD_LIBRARY_PATH={self.prefix}/{LIB}/ringpress/host\n", said)
        table = run(self.prefix / "bin/all_reduce_perf", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "2",
                    "--codec", "q4", env={**ENVIRONMENT, "RINGPRESS_SOCKET_IFNAME": "lo"})
        self.assertIn("1048576", table)

    def test_doctor(self):
        plugins = self.prefix / LIB / "ringpress"
        record = json.loads(self.ringpress("doctor", "--json", LD_LIBRARY_PATH=str(plugins)))
        self.assertEqual(record["plugin"], f"{self.prefix}/{LIB}/libnccl-net-ringpress.so")
        door_a = [row for row in record["findings"] if row["about"] == "door A"]
        self.assertIn(f"{self.prefix}/{LIB}/libringpress-preload.so", door_a[0]["text"])
        self.assertEqual([row for row in door_a if row["level"] == "problem"], [])
        self.assertNotIn("libringpress.so", "".join(row["text"] for row in door_a))
        host = [row["remedy"] for row in record["findings"] if row["about"] == "door C"]
        self.assertIn(f"put {plugins}/host first into LD_LIBRARY_PATH", "".join(host))

    def test_host_library_takes_nccls_place_in_its_own_folder_alone(self):
        code = "import ctypes; print(ctypes.CDLL('libnccl.so.2').ringpressGetStatistics)"
        for folder, found in ((f"{LIB}/ringpress/host", True), (LIB, False), (f"{LIB}/ringpress", False)):
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, timeout=100,
                                  env={**ENVIRONMENT, "LD_LIBRARY_PATH": str(self.prefix / folder)})
            self.assertEqual(done.returncode == 0, found, (folder, done.stderr))

    def test_a_program_linked_with_the_host_library_starts_at_door_c(self):
        program, source = self.folder / "linked", self.folder / "linked.c"
        source.write_text("int ncclGetVersion(int*);\nint main(void) { int version; return ncclGetVersion(&version); }\n")
        run("cc", source, f"-L{self.prefix}/{LIB}/ringpress/host", "-l:libnccl.so.2", "-o", program)
        self.ringpress("run", "--door", "C", "--", str(program))

    def test_preloaded_library_finds_its_engine(self):
        statistics = self.folder / "statistics"
        run(CLIENT, "2", "all", env={
            **ENVIRONMENT, "RINGPRESS_BACKEND": "host", "RINGPRESS_CODEC": "q4", "RINGPRESS_SOCKET_IFNAME": "lo",
            "RINGPRESS_STATS": str(statistics), "RINGPRESS_REAL_NCCL": str(FAKE_NCCL),
            "LD_PRELOAD": f"{self.prefix}/{LIB}/ringpress/preload/libnccl.so.2"})
        lines = [json.loads(line) for line in statistics.read_text().splitlines()]
        self.assertGreater(sum(line["compressed_calls"] for line in lines), 0)

    def test_program_built_by_pkg_config(self):
        variables = {**ENVIRONMENT, "PKG_CONFIG_PATH": f"{self.prefix}/{LIB}/pkgconfig"}
        self.assertEqual(run("pkg-config", "--modversion", "ringpress", env=variables).strip(), VERSION)
        preload = run("pkg-config", "--variable=preload", "ringpress", env=variables).strip()
        self.assertTrue(pathlib.Path(preload).is_file(), preload)
        flags = run("pkg-config", "--cflags", "--libs", "ringpress", env=variables).split()
        self.expect_sum(self.source("by_pkg_config"), lambda source, program: run(
            cache_entry("CMAKE_C_COMPILER"), "-o", program, source, *flags))

    def test_program_built_by_cmake(self):
        def build(source, program):
            (source.parent / "CMakeLists.txt").write_text(
                "cmake_minimum_required(VERSION 3.13)\nproject(job C)\n"
                f"find_package(ringpress {VERSION} REQUIRED)\nadd_executable(job job.c)\n"
                "target_link_libraries(job ringpress::ringpress)\n")
            run(CMAKE, "-S", source.parent, "-B", program.parent, "-G", cache_entry("CMAKE_GENERATOR"),
                f"-DCMAKE_MAKE_PROGRAM={cache_entry('CMAKE_MAKE_PROGRAM')}",
                f"-DCMAKE_C_COMPILER={cache_entry('CMAKE_C_COMPILER')}", f"-DCMAKE_PREFIX_PATH={self.prefix}")
            run(CMAKE, "--build", program.parent)
        self.expect_sum(self.source("by_cmake"), build)

    def source(self, name):
        """The C program of the page for host memory: two ranks."""
        page = (ROOT / "nccl_plugin/host/using.md").read_text()
        path = self.folder / name / "job.c"
        path.parent.mkdir()
        path.write_text(re.search(r"```c\n(.*?)```", page, re.DOTALL).group(1))
        return path

    def expect_sum(self, source, build):
        program = source.parent / "build/job"
        program.parent.mkdir()
        build(source, program)
        said = run(program, env={**ENVIRONMENT, "LD_LIBRARY_PATH": f"{self.prefix}/{LIB}"})
        self.assertEqual(said.split()[-1], "12")


if __name__ == "__main__":
    unittest.main()
