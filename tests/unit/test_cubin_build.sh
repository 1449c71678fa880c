#!/usr/bin/env bash
# Machine code for Hopper where ptxas is: a stand-in is asked for the PTX of each module of sm_90a, and what it makes is embedded
# beside the PTX; without one, where it does not know the target, or by NO_CUBIN=1, the build has PTX alone.
work=$(mktemp -d "${TMPDIR:-/tmp}/zt.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
[ -e build/kernels/sm_90a/roof.ptx ] || { echo "no PTX in this build"; exit 77; }
bad=0
miss() { echo "MISS: $*"; bad=1; }
build() { env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u NO_CUBIN make -s B="$work/build" K="$work/kernels" PTXAS="$1" "${@:2}" >"$work/out" 2>&1; }
code=$work/kernels/sm_90a_cubin/roof.cubin

cat >"$work/ptxas" <<'END'
#!/bin/sh
# -arch=sm_90a -o CUBIN PTX
[ "$1 $2" = "-arch=sm_90a -o" ] && [ $# -eq 4 ] || exit 1
[ "$4" = - ] || { printf CODE; cat "$4"; } >"$3"
END
printf '#!/bin/sh\nexit 1\n' >"$work/older"
chmod +x "$work/ptxas" "$work/older"

for without in "$work/nothing" "$work/older"; do
    ! build "$without" "$code" || miss "${without##*/}: machine code was made"
    grep -q "No rule to make target" "$work/out" || miss "${without##*/}: $(tail -n 1 "$work/out")"
    build "$without" -n "$work/kernels/blobs.c" || miss "${without##*/}: $(tail -n 1 "$work/out")"
    ! grep -q sm_90a_cubin "$work/out" || miss "${without##*/}: machine code is embedded"
    rm -rf "$work/build"
done

build "$work/ptxas" "$code" || miss "with ptxas: $(tail -n 2 "$work/out")"
{ printf CODE; cat "$work/kernels/sm_90a/roof.ptx"; } | cmp -s - "$code" || miss "the machine code is not what ptxas made of the PTX"
build "$work/ptxas" -n "$work/kernels/blobs.c" || miss "$(tail -n 1 "$work/out")"
embedded() { grep -o "$work/kernels/$1/[^ ]*\.$2\.zst" "$work/out" | sed "s|.*/||; s|\.$2\.zst||" | sort -u; }
[ -n "$(embedded sm_90a ptx)" ] || miss "no PTX of sm_90a is embedded"
diff <(embedded sm_90a ptx) <(embedded sm_90a_cubin cubin) || miss "not the same modules as PTX and as machine code"
build "$work/ptxas" NO_CUBIN=1 -n "$work/kernels/blobs.c" || miss "$(tail -n 1 "$work/out")"
[ -n "$(embedded sm_90a ptx)" ] && [ -z "$(embedded sm_90a_cubin cubin)" ] || miss "NO_CUBIN=1: machine code is embedded, or no PTX"
exit $bad
