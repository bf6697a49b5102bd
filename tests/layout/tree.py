"""What the layout tests share: the root of the tree and its source files."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("include", "compress_kernels", "ring", "tuner", "nccl_plugin", "tests", "perf")
CODE_SUFFIXES = (".h", ".hpp", ".inc", ".c", ".cc", ".cpp", ".cu", ".cuh")
SCRIPT_SUFFIXES = (".py", ".sh", ".cmake")


def files(root, suffixes, folders=FOLDERS):
    """Paths relative to `root` of all files with one of the suffixes, sorted."""
    found = []
    for folder in folders:
        for path in (root / folder).rglob("*"):
            if path.is_file() and path.suffix in suffixes:
                found.append(path.relative_to(root))
    return sorted(found)
