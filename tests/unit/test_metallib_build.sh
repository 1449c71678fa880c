#!/usr/bin/env bash
# A metallib for each module where Apple's tools are: stand-ins for them on PATH are called as theirs are, with the arithmetic
# that metal/kernels.c asks of the driver; without them, or where they fail, the build leaves it out, and says so on macOS.
work=$(mktemp -d "${TMPDIR:-/tmp}/zt.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
[ -e build/kernels/msl/basic.metal ] || { echo "no Metal texts in this build"; exit 77; }
bad=0
miss() { echo "MISS: $*"; bad=1; }
build() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS PATH="$1:$PATH" make -s B="$work/build" K="$work/kernels" "${@:2}" >"$work/out" 2>&1; }
library=$work/kernels/metallib/basic.metallib

mkdir "$work/tools" "$work/without" "$work/broken"
cat >"$work/tools/xcrun" <<'END'
#!/bin/sh
# ... metal ... -c -o AIR TEXT; ... metallib -o LIBRARY AIR
echo "$*" >>"$(dirname "$0")/log"
tool=$3
while [ $# -gt 2 ]; do shift; [ "$1" = -o ] && out=$2; done
eval "in=\$$#"
case $tool in
metal) { printf AIR; cat "$in"; } >"$out" ;;
metallib) { printf MTLB; tail -c +4 "$in"; } >"$out" ;;
*) exit 72 ;;
esac
END
printf '#!/bin/sh\necho "xcrun: error: unable to find utility \\"metal\\"" >&2\nexit 72\n' >"$work/broken/xcrun"
chmod +x "$work"/*/xcrun

for without in without broken; do
    ! build "$work/$without" "$library" || miss "$without: a metallib was made"
    grep -q "No rule to make target" "$work/out" || miss "$without: $(tail -n 1 "$work/out")"
    build "$work/$without" MACOS=Darwin list-sources || miss "$without: $(tail -n 1 "$work/out")"
    [ "$(grep -c '^note: no Metal compiler by xcrun' "$work/out")" -eq 1 ] || miss "$without: nothing is noted on macOS"
    rm -rf "$work/build"
done

build "$work/tools" "$library" || miss "with the tools: $(tail -n 2 "$work/out")"
{ printf MTLB; cat "$work/kernels/msl/basic.metal"; } | cmp -s - "$library" || miss "the metallib is not what the tools made of the text"
cmp -s "$work/kernels/msl/basic.metal" build/kernels/msl/basic.metal || miss "another text than the embedded one"
tail -n 2 "$work/tools/log" >"$work/calls"
flags='-std=metal3.2 -target air64-apple-macos15.0 -fmetal-math-mode=safe -fmetal-math-fp32-functions=precise -ffp-contract=off'
air=${library%.metallib}.air
printf '%s\n' "-sdk macosx metal $flags -c -o $air $work/kernels/msl/basic.metal" "-sdk macosx metallib -o $library $air" |
    diff - "$work/calls" || miss "called otherwise"
build "$work/tools" MACOS=Darwin list-sources
! grep -q '^note: no Metal compiler' "$work/out" || miss "noted although the tools are there"
build "$work/tools" -n "$work/kernels/blobs.c" && grep -q "$work/kernels/metallib/attn_h64.metallib.zst" "$work/out" || miss "not embedded"
exit $bad
