#!/usr/bin/env python3
"""What `cpack -G DEB` makes of a build tree: the package and what it depends on, in a root of their own.

usage: debian_test.py CMAKE BUILD_FOLDER [unittest's arguments]
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from install import (BUILD, CMAKE, MOST_LIBRARY_BYTES, cache_entry, files_below, folder_of,
                     keep_manifests, library_bytes, run)

del sys.argv[1:3]
TOOLS = ("dpkg-deb", "dpkg-query", "dpkg-shlibdeps", "unshare", "chroot")
# Mounts that only the child sees: every root has /proc, by which a program knows where it lies, and /dev.
ENTER = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'


def direct_dependencies(line):
    """Names of packages, of alternatives the first one that is installed here."""
    for part in filter(None, (part.strip() for part in line.split(","))):
        for choice in part.split("|"):
            name = re.match(r"[\w.+-]+", choice.strip()).group()
            if is_installed(name):
                yield name
                break


def is_installed(name):
    done = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}", name], capture_output=True,
                          text=True, check=False)
    return done.returncode == 0 and "ii" in done.stdout


def all_dependencies(line):
    found, left = set(), list(direct_dependencies(line))
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        left += direct_dependencies(run("dpkg-query", "-W", "-f", "${Depends},${Pre-Depends},", name))
    return found


def library_files(packages):
    """Of packages that are installed here."""
    return {pathlib.Path(line) for line in run("dpkg-query", "-L", *packages).splitlines()
            if re.match(r"/(usr/)?lib(64)?/", line) and not os.path.isdir(line)}


def chosen_links(files):
    """Links beside the files that say which of several packages a library is of (liblapack.so.3)."""
    return {link for folder in {path.parent for path in files} for link in folder.glob("*.so.*")
            if link.is_symlink() and os.readlink(link).startswith("/etc/alternatives/")}


def needed_files(line):
    """All that packages of a line of Depends need to be loaded."""
    links = chosen_links(library_files(all_dependencies(line)))
    targets = sorted({os.readlink(os.readlink(link)) for link in links})
    found = subprocess.run(["dpkg-query", "-S", *targets], capture_output=True, text=True,
                           check=False).stdout if targets else ""
    owners = {owner.split(":")[0] for owner in found.splitlines()}
    files = library_files(all_dependencies(", ".join([line, *owners])))
    return files | links | {pathlib.Path(os.readlink(link)) for link in links}


def copy_into(root, paths):
    for path in paths:
        # Of /lib and /usr/lib, one is a link to the other, here and there.
        place = root / str(path.parent.resolve()).lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(place / path.name):
            shutil.copy2(path, place / path.name, follow_symlinks=False)


def can_enter():
    return subprocess.run(["unshare", *as_root(), "-m", "mount", "--rbind", "/proc", "/proc"],
                          capture_output=True, check=False).returncode == 0


def as_root():
    return [] if os.getuid() == 0 else ["-r"]


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            raise unittest.SkipTest(f"there is no {missing[0]} here")
        keep_manifests(cls)
        folder = folder_of(cls)
        # Quicker than what users get.
        run(pathlib.Path(CMAKE).with_name("cpack"), "-G", "DEB", "-B", folder, "--config",
            BUILD / "CPackConfig.cmake", "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
        found = list(folder.glob("*.deb"))
        assert len(found) == 1, found
        cls.package, cls.root = found[0], folder / "root"
        for name in ("usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "proc", "dev"):
            (cls.root / name).mkdir(parents=True)
        for name in ("bin", "lib", "lib64", "sbin"):
            (cls.root / name).symlink_to(f"usr/{name}")
        run("dpkg-deb", "-x", cls.package, cls.root)
        cls.files = files_below(cls.root)

    def field(self, name):
        return run("dpkg-deb", "-f", self.package, name).strip()

    def test_says_what_it_is(self):
        self.assertEqual(self.field("Package"), "ringpress")
        self.assertEqual(self.field("Version"), cache_entry("CMAKE_PROJECT_VERSION"))
        self.assertRegex(self.field("Maintainer"), r".+ <.+@.+>")
        self.assertGreater(len(self.field("Description").splitlines()), 3)
        self.assertIn("ldconfig", run("dpkg-deb", "-I", self.package, "postinst"))

    def test_depends_on_what_its_files_need(self):
        depends = self.field("Depends")
        for library in ("libc6", "libhwy1", "libisal2", "libstdc++6"):
            self.assertRegex(depends, rf"(^|\W){re.escape(library)}\b")
        self.assertNotIn("nccl", depends)

    def test_takes_the_place_of_no_nccl(self):
        self.assertEqual(self.field("Conflicts") + self.field("Replaces") + self.field("Provides"), "")
        named = {name for name in self.files if "libnccl.so" in name}
        self.assertEqual({pathlib.Path(name).parent.name for name in named}, {"host", "preload"})
        for name in named:
            self.assertEqual(pathlib.Path(name).parents[1].name, "ringpress")

    def test_is_small(self):
        self.assertLess(library_bytes(self.root), MOST_LIBRARY_BYTES)
        self.assertEqual([name for name in self.files if ".debug" in name], [])

    def in_root(self, *words):
        done = subprocess.run(["unshare", *as_root(), "-m", "sh", "-c", ENTER, self.root, *words], env={},
                              capture_output=True, text=True, check=False, timeout=100)
        self.assertIn(done.returncode, (0, 1), done.stderr + done.stdout)
        return done.stdout

    @unittest.skipUnless(can_enter(), "this user may not enter another root")
    def test_works_in_a_root_with_what_it_depends_on(self):
        copy_into(self.root, needed_files(self.field("Depends")))
        self.assertEqual(self.in_root("/usr/bin/ringpress", "--version").strip(),
                         cache_entry("CMAKE_PROJECT_VERSION"))
        record = json.loads(self.in_root("/usr/bin/ringpress", "run", "--", "/usr/bin/ringpress",
                                         "doctor", "--json"))
        self.assertTrue(record["plugin"].endswith("/libnccl-net-ringpress.so"), record["plugin"])
        self.assertEqual([row["text"] for row in record["findings"]
                          if row["level"] == "problem" and "/usr/lib" in row["text"]], [])
        self.assertTrue([row for row in record["findings"]
                         if row["about"] == "door A" and "can be loaded" in row["text"]])
        table = self.in_root("/usr/bin/all_reduce_perf", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "2")
        self.assertIn("1048576", table)


if __name__ == "__main__":
    unittest.main()
