"""What the layout tests share: the root of the tree and its source files."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("include", "compress_kernels", "ring", "tuner", "nccl_plugin", "tests", "perf")
CODE_SUFFIXES = (".h", ".hpp", ".inc", ".c", ".cc", ".cpp", ".cu", ".cuh")
SCRIPT_SUFFIXES = (".py", ".sh", ".cmake")
WRITTEN = pathlib.PurePath("perf/out")  # By programs that were run here: no part of the tree.


def files(root, suffixes, folders=FOLDERS):
    """Paths relative to `root` of all files with one of the suffixes, sorted."""
    found = []
    for folder in folders:
        for path in (root / folder).rglob("*"):
            relative = path.relative_to(root)
            if path.is_file() and path.suffix in suffixes and WRITTEN not in relative.parents:
                found.append(relative)
    return sorted(found)
