#!/usr/bin/env bash
# Builds the wheel and installs it in a fresh virtual environment. There it all-reduces numpy arrays, and trains a network
# by Gloo and by ringpress. Run by hand: it compiles the library.
#
# usage: tests/nccl_plugin/python/wheel.sh [--torch PYTHON] [WHEEL]
#   --torch PYTHON   makes the environment with the Python at that path, and takes its torch; without it pip installs one
#   WHEEL            with it nothing is built
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
root=$PWD

python=python3
torch=
if [[ ${1:-} == --torch ]]; then
  python=$2
  torch=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])')
  shift 2
fi
wheel=${1:+$(realpath "$1")}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/env"
if [[ -z $wheel ]]; then
  "$folder/env/bin/pip" wheel --quiet --no-deps --wheel-dir "$folder/wheels" nccl_plugin/python
  wheel=$(echo "$folder"/wheels/ringpress-*.whl)
fi
if [[ -n $torch ]]; then
  # After the environment's own packages.
  echo "$torch" >"$(echo "$folder"/env/lib/python3*/site-packages)/torch.pth"
else
  # Without the packages of CUDA, which are large, and which CPUs do not need.
  "$folder/env/bin/pip" install --quiet --no-deps torch
  "$folder/env/bin/pip" install --quiet filelock fsspec jinja2 networkx setuptools sympy typing_extensions
fi
"$folder/env/bin/python" -c 'import numpy' 2>/dev/null || "$folder/env/bin/pip" install --quiet numpy
"$folder/env/bin/pip" install --quiet "$wheel"
unset PYTHONPATH RINGPRESS_LIBRARY
export TORCH_EXTENSIONS_DIR=$folder/torch_extensions OMP_NUM_THREADS=1
mkdir "$folder/meeting"
cat >"$folder/job.py" <<'TEXT'
import sys
import numpy
import ringpress
assert str(ringpress.library_path()).startswith(sys.prefix), ringpress.library_path()
with ringpress.communicator(folder=sys.argv[1]) as comm:
    values = numpy.full(100000, comm.rank + 1, numpy.float32)
    comm.all_reduce(values)
    assert (values == 3).all(), values
TEXT
cd "$folder"
RANK=1 WORLD_SIZE=2 env/bin/python job.py meeting &
RANK=0 WORLD_SIZE=2 env/bin/python job.py meeting
wait $!
unzip -l "$wheel" | tail -n +4
env/bin/python "$root/tests/nccl_plugin/python/wheel_training.py" "$root/nccl_plugin/python/examples" "$folder"
echo "the wheel $(basename "$wheel") works"
