#!/usr/bin/env bash
# What `cmake --install` makes of a build tree works where it lies, also where only a part was built.
# usage: install_test.sh CMAKE BUILD_FOLDER
set -euo pipefail
cmake=$1 build=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$cmake" --install "$build" --prefix "$folder/whole" >/dev/null
for file in bin/ringpress include/ringpress/nccl.h include/ringpress/nccl_types.h \
            include/ringpress/nccl_device.h include/ringpress/ringpress.h; do
  [[ -e $folder/whole/$file ]] || { echo "not installed: $file"; exit 1; }
done
for library in libringpress.so libringpress-preload.so libnccl-net-ringpress.so \
  libnccl-tuner-ringpress.so libnccl-profiler-ringpress.so libnccl-env-ringpress.so libnccl.so.2; do
  [[ -n $(find "$folder/whole" -name "$library") ]] || { echo "not installed: $library"; exit 1; }
done
"$folder/whole/bin/ringpress" params >/dev/null
said=$("$folder/whole/bin/ringpress" run env 2>/dev/null)
grep -q "^NCCL_NET_PLUGIN=ringpress$" <<<"$said" || { echo "run without -- sets nothing: $said"; exit 1; }
for door in A C; do  # From where it is installed.
  said=$("$folder/whole/bin/ringpress" run --door $door env 2>/dev/null)
  grep -qE "^LD_(PRELOAD|LIBRARY_PATH)=$folder/whole/.*lib" <<<"$said" || {
    echo "run --door $door sets nothing: $said"
    exit 1
  }
done

# The rules are those of the tree; a file that a part of a build lacks is one that is not there.
lacks=$folder/cmake_install.cmake
sed "s|/lib/libringpress\.so\.0\.1\.0\"|/lib/not-built-yet\"|" "$build/cmake_install.cmake" >"$lacks"
"$cmake" -DCMAKE_INSTALL_PREFIX="$folder/part" -P "$lacks" >"$folder/log" 2>&1 || {
  cat "$folder/log"
  exit 1
}
grep -q "Building what is to be installed" "$folder/log" || {
  echo "what was not built is not built before it is installed"
  cat "$folder/log"
  exit 1
}
[[ -x $folder/part/bin/ringpress ]]
