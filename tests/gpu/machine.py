"""What the machine offers: GPUs, the driver, NCCL, and what was built.

`machine.py LIBNCCL` prints what it finds as one JSON object; it is a program so that the driver is
asked in a process of its own.
"""
import ctypes
import glob
import json
import os
import pathlib
import shutil
import site
import subprocess
import sys

DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib64",
                  "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib/wsl/lib")
NCCL_FOLDERS = ("/usr/local/cuda*/lib64", "/usr/local/cuda*/lib", "/usr/lib/x86_64-linux-gnu",
                "/usr/lib/aarch64-linux-gnu", "/usr/local/lib", "/usr/lib64")
WHEEL = "nvidia/nccl/lib"
ENVIRONMENTS = ("/opt/*/.venv/lib/python3*/site-packages", "/opt/*/lib/python3*/site-packages",
                "/usr/local/lib/python3*/*-packages", "/usr/lib/python3*/*-packages")
NCCL = "libnccl.so.2"
PLUGIN = "libnccl-net-ringpress.so"


def is_nccl(path):
    """Whether it is NVIDIA's: this library goes by that name too."""
    return path.is_file() and not path.resolve().name.startswith("libringpress")


def recorded_nccl(build):
    """Where the build found NCCL; the tree may have been carried here without its cache."""
    try:
        cache = (build / "CMakeCache.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [line.split("=", 1)[1] for line in cache.splitlines()
            if line.startswith("RINGPRESS_NCCL_LIBRARY:")]


def nccl_candidates(build, environment):
    """Paths where libnccl.so.2 may be, the likeliest first."""
    for path in recorded_nccl(build):
        yield pathlib.Path(path).parent / NCCL
    folders = environment.get("LD_LIBRARY_PATH", "").split(":")
    packages = site.getsitepackages() + [site.getusersitepackages()] + sys.path
    # The interpreter of the machine's environment, which need not be the one that runs this.
    if python := shutil.which("python3", path=environment.get("PATH")):
        packages += glob.glob(f"{pathlib.Path(python).parent.parent}/lib/python3*/site-packages")
    for pattern in NCCL_FOLDERS:
        folders += sorted(glob.glob(pattern), reverse=True)
    for pattern in ENVIRONMENTS:
        packages += sorted(glob.glob(pattern))
    for folder in folders + [f"{package}/{WHEEL}" for package in packages]:
        if folder:
            yield pathlib.Path(folder) / NCCL


def find_nccl(build, environment):
    """The folder of the first libnccl.so.2 that is NVIDIA's, or None."""
    for path in nccl_candidates(build, environment):
        if is_nccl(path):
            return path.parent
    return None


def driver_folder(environment):
    """A folder for LD_LIBRARY_PATH where the loader does not find the driver by itself."""
    for folder in environment.get("LD_LIBRARY_PATH", "").split(":"):
        if folder and (pathlib.Path(folder) / "libcuda.so.1").exists():
            return None
    try:
        ctypes.CDLL("libcuda.so.1")
        return None
    except OSError:
        pass
    for folder in DRIVER_FOLDERS:
        if (pathlib.Path(folder) / "libcuda.so.1").exists():
            return folder
    return None


def ask_driver():
    """{"gpus": [names], "cuda": version} or {"gpus": [], "why": ...}."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return {"gpus": [], "why": str(error)}
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        return {"gpus": [], "why": f"the driver answers {status} and shows {count.value} devices"}
    names = []
    for index in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(128)
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceGetName(name, len(name), device)
        names.append(name.value.decode())
    return {"gpus": names, "cuda": f"{version.value // 1000}.{version.value % 1000 // 10}"}


def nccl_version(path):
    code = ctypes.c_int()
    ctypes.CDLL(path).ncclGetVersion(ctypes.byref(code))
    return f"{code.value // 10000}.{code.value // 100 % 100}.{code.value % 100}"


def load_error(library, environment):
    """Why the loader refuses a library, or None."""
    done = subprocess.run([sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])",
                           str(library)], env=environment, capture_output=True, text=True,
                          check=False, timeout=60)
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]


def describe(nccl, environment):
    """The machine, as a dictionary for the report."""
    words = [str(nccl / NCCL)] if nccl else []
    done = subprocess.run([sys.executable, "-B", __file__, *words], env=environment,
                          capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"gpus": [], "why": f"asking the driver ended with {done.returncode}: {last}"}
    return json.loads(done.stdout)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def main():
    found = ask_driver()
    if len(sys.argv) > 1:
        found["nccl"] = nccl_version(sys.argv[1])
        found["nccl_library"] = sys.argv[1]
    module = pathlib.Path("/proc/driver/nvidia/version")
    if module.exists():
        found["driver"] = module.read_text(encoding="utf-8").splitlines()[0]
    found["cores"] = len(os.sched_getaffinity(0))
    found["processor"] = processor()
    found["kernel"] = os.uname().release
    print(json.dumps(found))


if __name__ == "__main__":
    main()
