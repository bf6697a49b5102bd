"""libringpress.so: where it is, and its C functions by ctypes."""
import ctypes
import functools
import os
import pathlib
import warnings
from typing import Any, Dict, List, Optional

from . import errors

FILE_NAME = "libringpress.so.0"
VARIABLE = "RINGPRESS_LIBRARY"
ID_BYTES = 128
_PACKAGE = pathlib.Path(__file__).resolve().parent


class UniqueId(ctypes.Structure):
    """ncclUniqueId: passed by value."""
    _fields_ = [("internal", ctypes.c_byte * ID_BYTES)]


def places() -> List[pathlib.Path]:
    """Where the library is looked for when RINGPRESS_LIBRARY is not set, in this order: in the wheel, beside the
    installed prefix that holds this package, and in the build folder of the tree that holds it."""
    found = [_PACKAGE / "lib" / FILE_NAME]
    for folder in _PACKAGE.parents:
        found += [folder / "lib" / FILE_NAME, folder / "lib64" / FILE_NAME, folder / "build" / "lib" / FILE_NAME]
    return [path for path in found if path.parent != pathlib.Path("/lib")]


@functools.lru_cache(maxsize=None)
def path() -> pathlib.Path:
    """The library's file. RINGPRESS_LIBRARY names it; else see places().

    Raises LibraryNotFoundError, whose message lists where it was looked for.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not os.path.isfile(named):
            raise errors.LibraryNotFoundError(f"{VARIABLE}={named}: there is no such file. It must be the path of "
                                              "libringpress.so.")
        return pathlib.Path(named).resolve()
    for candidate in places():
        if candidate.is_file():
            return candidate.resolve()
    looked = "\n  ".join(map(str, places()))
    raise errors.LibraryNotFoundError(f"libringpress.so was not found. Set {VARIABLE} to its path, or install the "
                                      f"wheel. It was looked for here:\n  {looked}")


def include_folder() -> pathlib.Path:
    """The folder that has ringpress/nccl.h, for what is compiled against the library."""
    candidates = [_PACKAGE / "include", *(folder / "include" for folder in _PACKAGE.parents)]
    for folder in candidates:
        if (folder / "ringpress" / "nccl.h").is_file():
            return folder
    looked = "\n  ".join(map(str, candidates))
    raise errors.LibraryNotFoundError(f"ringpress/nccl.h was not found. It was looked for here:\n  {looked}")


def other_libraries(own: pathlib.Path, maps: Optional[str] = None) -> List[str]:
    """Files of other libringpress.so that this process has loaded. `maps` is the text of /proc/self/maps."""
    if maps is None:
        maps = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    loaded = {line.split(maxsplit=5)[5] for line in maps.splitlines() if len(line.split(maxsplit=5)) == 6}
    return sorted(name for name in loaded
                  if os.path.basename(name).startswith("libringpress.so") and name != str(own))


def warn_of_others(own: pathlib.Path, maps: Optional[str] = None) -> None:
    """Two libraries in one process share no communicators, settings or statistics: the user is told which."""
    for other in other_libraries(own, maps):
        warnings.warn(f"This process has loaded two ringpress libraries: {own} for Python, and {other}. They know "
                      f"nothing of each other's communicators. Uninstall one of the wheels, or set {VARIABLE} to the "
                      "one that the program preloads.", errors.TwoLibrariesWarning, stacklevel=3)


@functools.lru_cache(maxsize=None)
def functions() -> ctypes.CDLL:
    """The library, opened once. Each call releases the GIL until it returns."""
    try:
        library = ctypes.CDLL(str(path()))
    except OSError as error:
        raise errors.LibraryNotFoundError(f"{path()} cannot be opened: {error}. It needs libhwy1 and libisal2 "
                                          "(Debian: apt-get install libhwy1 libisal2).") from error
    library.ncclGetLastError.restype = ctypes.c_char_p
    library.ringpressVersion.restype = ctypes.c_char_p
    warn_of_others(path())
    return library


def version() -> str:
    """The library's version: major.minor.patch."""
    return functions().ringpressVersion().decode()


def last_error() -> str:
    """What the last failed call of this thread said."""
    return functions().ncclGetLastError(None).decode(errors="replace")


def call(name: str, *arguments: Any) -> None:
    """Calls a C function that returns an ncclResult_t. Raises what errors.of_result() makes of a failure."""
    result = getattr(functions(), name)(*arguments)
    if result != 0:
        raise errors.of_result(result, last_error() or f"{name} returned {result}")


def structure_as_dict(structure: ctypes.Structure) -> Dict[str, Any]:
    """Its fields but for `size`; text is decoded."""
    values: Dict[str, Any] = {}
    for name, *_ in structure._fields_:
        value = getattr(structure, name)
        if name != "size":
            values[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return values
