#!/usr/bin/env bash
# What the PTX for Hopper must have and must not: every kernel waits for the launch before it (one that does not would let the
# next one begin before what came before has ended), and no fence of the asynchronous copies is without its memory's name (it
# would be one for the whole GPU; doc/speed-log.md, "Prompts").
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
exit $bad
