"""How a shared object, or a Python source, reaches NCCL."""
import ast
import dataclasses
import mmap
import re
import subprocess

# ncclAllReduce, not pncclAllReduce or ncclNetPlugin_v8.
FUNCTION = re.compile(r"nccl[A-Z]\w*")
NAME = re.compile(rb"\0(nccl[A-Z][A-Za-z]*)(?=\0)")
# NCCL itself looks for these, and nothing else does.
PLUGIN = re.compile(rb"\0ncclNetPlugin_v\d+(?=\0)")
ALL_REDUCE = "ncclAllReduce"


@dataclasses.dataclass
class Way:
    """How one file reaches NCCL."""
    reaches: str     # linked: the linker binds its calls; opened: dlopen; contained: has its own.
    evidence: str    # For people.
    functions: list  # Of NCCL, by name.
    trampoline: int = None  # Address of its own ncclAllReduce, which opens NCCL and calls that one.
    opens: str = None       # What is handed to dlopen: a name, or "path" for the path of a wheel's.


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, str(path)], check=True, capture_output=True,
                          text=True, errors="replace").stdout


def symbols(table):
    """(name, section, address) of each of NCCL's functions in what readelf prints."""
    found = []
    for line in table.splitlines():
        cells = line.split()
        if len(cells) >= 8 and FUNCTION.fullmatch(cells[7].split("@")[0]):
            found.append((cells[7].split("@")[0], cells[6], int(cells[1], 16)))
    return found


def tags(dynamic):
    """The libraries that a file needs, and where it says they lie."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    paths = re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
    return needed, paths[0] if paths else None


def names_within(path):
    """NCCL's functions that are named in the file, and whether it looks for NCCL's plugins."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        names = {match.group(1).decode() for match in NAME.finditer(data)}
        return names, PLUGIN.search(data) is not None


def classify(needed, path, dynamic_symbols, all_symbols, names, is_nccl):
    """The Way of a file of which all this is known."""
    undefined = sorted({name for name, section, _ in dynamic_symbols if section == "UND"})
    if is_nccl:
        return Way("contained", "it looks for NCCL's plugins itself", [])
    if undefined:
        nccl = [library for library in needed if library.startswith("libnccl.so")]
        where = f", {path[0]}" if path and nccl else ""
        from_whom = f"needs {nccl[0]}{where}" if nccl else "has them of another library"
        return Way("linked", f"{len(undefined)} undefined functions; {from_whom}", undefined)
    own = {name: address for name, section, address in all_symbols if section != "UND"}
    if ALL_REDUCE in own:
        return Way("opened", f"{len(own)} trampolines; no undefined function", sorted(own),
                   own[ALL_REDUCE], "libnccl.so.2")
    if ALL_REDUCE in names:
        return Way("opened", f"{len(names)} names of functions; none is undefined", sorted(names),
                   None, "libnccl.so.2")
    return Way("no", "names no function of NCCL", [])


def describe(path):
    """The Way of a shared object or a program."""
    needed, search = tags(readelf("--dynamic", path))
    dynamic_symbols = symbols(readelf("--dyn-syms", path))
    undefined = any(section == "UND" for _, section, _ in dynamic_symbols)
    all_symbols = dynamic_symbols if undefined else symbols(readelf("--symbols", path))
    return classify(needed, search, dynamic_symbols, all_symbols, *names_within(path))


def describe_python(sources):
    """The Way of sources that call NCCL through ctypes."""
    text = {node.value for source in sources for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    opens = any(isinstance(node, ast.Attribute) and node.attr == "CDLL"
                for source in sources for node in ast.walk(ast.parse(source)))
    functions = sorted(value for value in text if FUNCTION.fullmatch(value))
    if not opens or ALL_REDUCE not in functions or "libnccl.so.2" not in text:
        return Way("no", "opens no libnccl.so.2 through ctypes", [])
    return Way("opened", f"ctypes.CDLL(\"libnccl.so.2\"), {len(functions)} functions", functions,
               None, "libnccl.so.2")


def hands_over_path(sources):
    """True if Python code looks for the file of NCCL's package, for a library to open."""
    imported = [f"{node.module}.{alias.name}" for source in sources
                for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)
                for alias in node.names]
    return "nvidia.nccl.lib" in imported
