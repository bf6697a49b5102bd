#!/usr/bin/env bash
# Builds the wheel, installs it in a fresh virtual environment and all-reduces there. Run by hand: it compiles the library.
#
# usage: tests/nccl_plugin/python/wheel.sh [WHEEL]    with WHEEL nothing is built
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
wheel=${1:-}
if [[ -z $wheel ]]; then
  "$folder/env/bin/pip" wheel --quiet --no-deps --wheel-dir "$folder/wheels" nccl_plugin/python
  wheel=$(echo "$folder"/wheels/ringpress-*.whl)
fi
"$folder/env/bin/pip" install --quiet numpy "$wheel"
unset PYTHONPATH RINGPRESS_LIBRARY
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
echo "the wheel $(basename "$wheel") works"
