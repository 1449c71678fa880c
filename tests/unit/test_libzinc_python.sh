#!/usr/bin/env bash
# python/zinc.py on the build's library (tests/unit/libzinc_python.py).
set -u
build=${ZINC_BUILD:-build}
[ -e "$build/libzinc.so.0" ] && [ -x "$build/mkmodel" ] || { echo "no $build/libzinc.so.0: make first"; exit 77; }
case $build in */sanitize | */thread) echo "Python without the sanitizer cannot load its library: the release build's"; exit 77 ;; esac
command -v python3 >/dev/null || { echo "no python3"; exit 77; }
export LIBZINC=$PWD/$build/libzinc.so.0 MKMODEL=$PWD/$build/mkmodel PYTHONDONTWRITEBYTECODE=1
export -n ZINC_BUILD ZINC_SHARED 2>/dev/null
exec python3 -W error tests/unit/libzinc_python.py
