#!/usr/bin/env bash
# What the PTX for Hopper must have and must not: every kernel waits for the launch before it (one that does not would let the
# next one begin before what came before has ended), and no fence of the asynchronous copies is without its memory's name (it
# would be one for the whole GPU; doc/speed-log.md, "Prompts"). CUDA's assembler, where it is, takes what each source has in it.
dir=build/kernels/sm_90a
ls $dir/*.ptx >/dev/null 2>&1 || { echo "no PTX in this build"; exit 77; }
bad=0
miss() { echo "MISS: $*"; bad=1; }
waits() # FILES...: kernels that do not
{
    awk 'function told() { if (name && !n) print name }
         /\.entry/ { told(); name = $0; sub(/.*\.entry /, "", name); sub(/\(.*/, "", name); n = 0 }
         /griddepcontrol\.wait/ { n++ }
         END { told() }' "$@"
}
missing=$(waits $dir/*.ptx | grep -vx k_roof) # which is launched alone, to measure
[ -z "$missing" ] || miss "without griddepcontrol.wait:" $missing
[ "$(waits $dir/roof.ptx)" = k_roof ] || miss "a kernel that does not wait is not seen"
fences=$(grep -l 'fence\.proxy\.async;' $dir/*.ptx)
[ -z "$fences" ] || miss "fence.proxy.async for all memory:" $fences
grep -q 'fence\.proxy\.async\.shared::cta;' $dir/gemm_wgmma_bf16.ptx || miss "gemm_wgmma_bf16 has no fence for its stages"
# What is read from a stage by ldmatrix has to be there before the stage is given back: a load that is still under way meets the copy
# of the next one (seen on an H100, as logits that were no numbers).
early=$(awk '/ldmatrix/ { read = 1 } /fence\.proxy\.async\.shared::cta/ { read = 0 }
             /mbarrier\.arrive\.shared/ && read { print FILENAME; nextfile }' $dir/rows_half_*.ptx)
[ -z "$early" ] || miss "stages given back with loads under way:" $early
# Of each source the module whose PTX is the shortest.
shortest=$(awk '/^source_/ { sub("source_", "", $1); print $3, $1 }' build/kernels/lists.mk |
    while read -r source m; do [ ! -e $dir/$m.ptx ] || echo "$source $(wc -c <$dir/$m.ptx) $m"; done |
    sort -k 1,1 -k 2,2n | awk '!had[$1]++ { print $3 }')
[ "$(wc -w <<<"$shortest")" -ge 25 ] || miss "only $(wc -w <<<"$shortest") sources of PTX"
# A build may have it for Hopper alone.
if [ ! -e build/kernels/sm_80/roof.ptx ]; then
    work=$(mktemp -d "${TMPDIR:-/tmp}/zt.XXXXXX") || exit 1
    trap 'rm -rf "$work"' EXIT
    all=$(env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s B="$work/build" K="$work/kernels" NV_TARGETS=sm_80 \
        --eval 'all-ptx:; @echo $(notdir $(PTX:.ptx=))' all-ptx 2>&1 | tail -n 1)
    older=$(for m in $shortest; do case " $all " in *" $m "*) echo "$work/kernels/sm_80/$m.ptx" ;; esac; done)
    [ "$(wc -w <<<"$older")" -ge 18 ] || miss "only $(wc -w <<<"$older") sources of PTX for others than Hopper: $all"
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS make -s B="$work/build" K="$work/kernels" NV_TARGETS=sm_80 $older >"$work/out" 2>&1 ||
        miss "PTX for others than Hopper: $(grep -m 1 error "$work/out" || tail -n 1 "$work/out")"
    [ "$(cat $older 2>/dev/null | grep -c '^\.target sm_80')" -eq "$(wc -w <<<"$older")" ] || miss "not all of it is there"
fi
if command -v ptxas >/dev/null; then
    # What is written in PTX stands in text that no other compiler reads.
    for m in $shortest; do
        case $m in gemm_half_* | gemm_wgmma_* | attn_wgmma_*) continue ;; esac # below
        said=$(ptxas -arch=sm_90a -O0 -o /dev/null $dir/$m.ptx 2>&1) || miss "$m: $(echo "$said" | tail -n 1)"
    done
    # A product that ptxas cannot leave under way is waited for at once: the same bits, and much slower.
    for m in gemm_half_q4k gemm_half_q80 gemm_wgmma_bf16 attn_wgmma_h64 attn_wgmma_h128 attn_wgmma_h256; do
        said=$(ptxas -arch=sm_90a -v -o /dev/null $dir/$m.ptx 2>&1) || miss "$m: $(echo "$said" | tail -n 1)"
        case $said in *serialized*) miss "$m: $(echo "$said" | grep -m 1 serialized)" ;; esac
    done
else
    echo "skipped: 2 cases: no ptxas here: whether it takes the PTX, and leaves products under way"
fi
exit $bad
