#!/usr/bin/env bash
# A program finds an installed libzinc by pkg-config, whatever folder it was installed to: examples/answer.c is built as its
# comment says, with nothing of the tree, and gives the answer of zinc run --chat.
set -u
build=${ZINC_BUILD:-build}
[ -e "$build/libzinc.so.0" ] && [ -x "$build/zinc" ] || { echo "no $build/libzinc.so.0: make first"; exit 77; }
case $build in */sanitize | */thread) echo "a program without the sanitizer cannot load its library: the release build's"; exit 77 ;; esac
for p in pkg-config cc; do command -v $p >/dev/null || { echo "no $p"; exit 77; }; done
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-lib.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export -n ZINC_BUILD ZINC_SHARED 2>/dev/null
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
}
q='What is 27 + 48?'
want=$("$build/zinc" run -m models/zinc-demo.gguf --chat -p "$q" --temp 0 -q 2>/dev/null) || miss "zinc run"
tools/install.sh put "$build" "$work/first" >/dev/null || miss "install"
mv "$work/first" "$work/usr"
for f in include/zinc.h lib/libzinc.so lib/libzinc.so.0 lib/pkgconfig/libzinc.pc share/zinc/python/zinc.py share/doc/zinc/examples/answer.c; do
    [ -s "$work/usr/$f" ] || miss "not installed: $f"
done
export PKG_CONFIG_PATH=$work/usr/lib/pkgconfig
version=$(pkg-config --modversion libzinc)
[ "$version" = "$("$build/zinc" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1)" ] || miss "version: '$version'"
demo=$PWD/models/zinc-demo.gguf
cd "$work" || exit 1
# shellcheck disable=SC2046
cc -Wall -Wextra -Werror usr/share/doc/zinc/examples/answer.c $(pkg-config --cflags --libs libzinc) -o answer || miss "the example is not built"
export LD_LIBRARY_PATH=$work/usr/lib
got=$(./answer "$demo" "$q" 2>err) || miss "answer: $(cat err)"
[ "$got" = "$want" ] || miss "answer says '$got', zinc run '$want'"
grep -q 'tokens of prompt' err || miss "its last line: $(cat err)"
./answer nowhere.gguf "$q" >out 2>err && miss "a missing file is no failure"
[ "$(wc -l <err)" -eq 1 ] && grep -q '^answer: .*nowhere.gguf' err || miss "a missing file: $(cat err)"
if command -v python3 >/dev/null; then
    got=$(PYTHONPATH=usr/share/zinc/python python3 -c 'import sys, zinc; print(zinc.Model(sys.argv[1]).chat().say(sys.argv[2], sampling="temp=0").text())' "$demo" "$q") ||
        miss "the installed Python module"
    [ "$got" = "$want" ] || miss "Python says '$got'"
fi
[ $misses -eq 0 ] || { echo "$misses misses"; exit 1; }
