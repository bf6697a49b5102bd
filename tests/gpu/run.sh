#!/usr/bin/env bash
# Tries on a GPU what only a GPU can prove: run.sh --help. Exit status 3: there is no GPU here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command -v python3 >/dev/null || { echo "tests/gpu/run.sh: python3 is missing" >&2; exit 2; }
exec python3 -B "$here/run.py" "$@"
