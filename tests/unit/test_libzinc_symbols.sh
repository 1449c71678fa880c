#!/usr/bin/env bash
# libzinc.so exports what its header declares and its version script lists, versioned, and nothing else; it is found by its soname, needs nothing that zinc's
# packages do not bring, and leaves none of its own names open. The header is C99 and C++11 as it stands.
set -u
build=${ZINC_BUILD:-build}
so=$build/libzinc.so.0
[ -e "$so" ] || { echo "no $so: make first"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-symbols.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
}
grep -ohE 'zinc_[a-z_]+;' lib/libzinc.map | tr -d ';' | sort >"$work/listed"
tr '\n' ' ' <include/zinc.h | sed 's/ZINC_API/\n&/g' | sed -nE 's/^ZINC_API [^(]*\b(zinc_[a-z_]+)\(.*/\1/p' | sort >"$work/declared"
nm -D --defined-only "$so" | awk '$2 != "A" { print $3 }' | sort >"$work/exported"
[ "$(wc -l <"$work/exported")" -gt 30 ] || miss "few names: $(cat "$work/exported")"
diff "$work/listed" "$work/declared" || miss "the version script and the header differ, see above"
sed 's/@@ZINC_0$//' "$work/exported" | diff - "$work/listed" || miss "the library and its version script differ, see above"
readelf -d "$so" | grep -q 'soname: \[libzinc.so.0\]' || miss "its soname: $(readelf -d "$so" | grep soname)"
case $build in
*/sanitize | */thread) ;;
*)
    readelf -d "$so" | grep -oE 'NEEDED.*\[(.*)\]' | sed 's/.*\[//; s/\]//' >"$work/needed"
    grep -vE '^(libc|libm|ld-linux.*|libutf8proc|libjansson|libxxhash|libelf|libzstd|libgcc_s)\.so' "$work/needed" &&
        miss "it needs more than the engine's libraries, see above"
    ;;
esac
readelf -d "$so" | grep -q NODELETE || miss "dlclose would take it away under its threads"
readelf -lW "$so" | grep -q 'GNU_STACK.* RWE' && miss "its stack is executable"
readelf -d "$so" | grep -q TEXTREL && miss "it has text relocations: an object without -fPIC"
printf '#include "include/zinc.h"\nint f(void);\nint f(void) { zinc_model_opts o = { .size = sizeof o }; return zinc_model_open(&o, 0, 0); }\n' >"$work/c.c"
printf '#include "include/zinc.h"\nint f();\nint f() { zinc_model_opts o = zinc_model_opts(); o.size = sizeof o; zinc_piece p; p.size = sizeof p; return zinc_model_open(&o, 0, 0); }\n' >"$work/cc.cc"
strict="-Wall -Wextra -Wpedantic -Werror -I. -c -o $work/o"
for cc in gcc clang-19; do
    command -v $cc >/dev/null || continue
    for std in c99 c11 gnu17; do
        $cc -std=$std $strict "$work/c.c" || miss "$cc -std=$std does not take include/zinc.h"
    done
done
found=
for cxx in g++ clang++-19; do
    command -v $cxx >/dev/null || continue
    found=1
    for std in c++11 c++17 c++20; do
        $cxx -std=$std $strict "$work/cc.cc" || miss "$cxx -std=$std does not take include/zinc.h"
        nm "$work/o" | grep -q ' U zinc_model_open$' || miss "$cxx: the names are C++'s: no extern \"C\""
    done
done
[ -n "$found" ] || echo "skipped: 1 case: no C++ compiler to read the header"
[ $misses -eq 0 ] || { echo "$misses misses"; exit 1; }
