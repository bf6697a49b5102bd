"""What tests of installed files share."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CMAKE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[3]
MOST_LIBRARY_BYTES = 12 << 20
MOST_PROGRAM_BYTES = 3 << 20  # They have no codecs of their own.
KERNELS = "libringpress-cuda.so"

# Of the surroundings, nothing speaks of this library.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(("NCCL_", "RINGPRESS", "LD_", "VIRTUAL_ENV", "CONDA_PREFIX",
                                       "DESTDIR", "PKG_CONFIG", "CMAKE_"))}


def run(*words, **options):
    """What a command prints; it must not fail."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=False, timeout=200,
                          **{"env": ENVIRONMENT, **options})
    assert done.returncode == 0, f"{words}: exit status {done.returncode}\n{done.stdout}"
    return done.stdout


def cache_entry(name):
    """Of the build tree's settings."""
    for line in (BUILD / "CMakeCache.txt").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return line.split("=", 1)[1]
    raise AssertionError(f"{BUILD}/CMakeCache.txt has no {name}")


def folder_of(test_class):
    folder = tempfile.TemporaryDirectory()
    test_class.addClassCleanup(folder.cleanup)
    return pathlib.Path(folder.name).resolve()


def keep_manifests(test_class):
    """The build tree's lists of what its user has installed are there again after the tests."""
    kept = folder_of(test_class)
    for path in BUILD.glob("install_manifest*.txt"):
        shutil.move(path, kept / path.name)

    def bring_back():
        for path in BUILD.glob("install_manifest*.txt"):
            path.unlink()
        for path in kept.iterdir():
            shutil.move(path, BUILD / path.name)
    test_class.addClassCleanup(bring_back)


def is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def files_below(folder):
    """Files and links, as paths from there."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")
            if path.is_symlink() or not path.is_dir()}


def library_bytes(folder):
    """Of all libraries below a folder, but for the kernels of a GPU."""
    return sum(path.stat().st_size for path in folder.rglob("*.so*")
               if is_elf(path) and path.name != KERNELS and path.parent.name != ".debug")
