#!/usr/bin/env bash
# The kfd tier when its queue is preempted in mid-kernel, on the hardware model: the waves' registers go through the
# context save area and back, and the bits stay what they are; what a card does not survive ends in one clear line.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc")
need_amdsim
amdsim=$(realpath "$amdsim")
export ZINC_KFD_TIMEOUT=120
export -n ZINC_TIER ZINC_AMD_PRIV ZINC_AMD_TRAP_PRESENT ZINC_AMD_SEND_ALL ZINC_AMD_BARRIER ZINC_KFD_SMALL_SAVE
make_model qwen3 Q8_0 "$work/m.gguf" || finish
cd "$work" || exit 1 # where reports of faults go

# tokens SIM-OPTIONS: in $work/out what was generated and the logits' hash, in $work/err the rest; the exit status is zinc's
tokens()
{
    $amdsim --stats "$@" "$zinc" run -m m.gguf --tier kfd --prompt-tokens 1,2,3 -n 4 --ctx 64 --temp 0 --ignore-eos \
        --print-tokens >raw 2>err
    local rc=$?
    cat raw err | grep -o 'logits=[0-9a-f]*' >out
    grep -E '^[0-9 ]+$' raw >>out
    return $rc
}
# same WHAT SIM-OPTIONS: the same bits as without; the queue was preempted
same()
{
    local what=$1
    shift
    tokens "$@" --preempt 700 || miss "$what: $(tail -n 2 err)"
    cmp -s out want || miss "$what: $(tr '\n' ' ' <out), without: $(tr '\n' ' ' <want)"
    grep -q '[1-9][0-9]* times a work-group was preempted' err || miss "$what: nothing was preempted"
    printf '%-28s %s\n' "$what" "$(grep preempted err)"
}
# ends WORDS WHAT SIM-OPTIONS
ends()
{
    local words=$1 what=$2
    shift 2
    tokens "$@" && miss "$what: it ran"
    grep -q -- "$words" err || miss "$what: no '$words' in: $(cat err)"
    printf '%-28s %s\n' "$what" "$(grep -- "$words" err | head -n 1)"
}

gpus="gfx1201 gfx1151 gfx1100"
case $build in */sanitize | */debug) gpus="gfx1151 gfx1100" ;; esac # slow
for gpu in $gpus; do
    tokens --gpu $gpu || miss "$gpu: $(tail -n 2 err)"
    cp out want
    [ -s want ] || miss "$gpu: no tokens"
    same $gpu --gpu $gpu
done
same "evicted by another process" --gpu gfx1100 --evict 25
grep -q ' [1-9][0-9]* times the queues were evicted' err || miss "evicted: no eviction: $(grep evicted err)"
same "evicted often" --gpu gfx1100 --evict 7
ZINC_AMD_TRAP_PRESENT=1 same "TRAP_PRESENT" --gpu gfx1100
ZINC_AMD_SEND_ALL=1 same "all registers" --gpu gfx1100
ZINC_AMD_BARRIER=1 same "barriers by fences" --gpu gfx1100
ZINC_AMD_PRIV=0 ends "amdgpu.cwsr_enable=0" "without PRIV" --gpu gfx1100 --preempt 700
ZINC_AMD_PRIV=0 tokens --gpu gfx1100 --preempt 700 --inject cwsr-off || miss "cwsr_enable=0 is no way out: $(tail -n 2 err)"
cmp -s out want || miss "cwsr_enable=0: other bits"
tokens --gpu gfx1201
cp out want
ZINC_AMD_PRIV=1 ZINC_AMD_TRAP_PRESENT=1 same "gfx12 takes neither" --gpu gfx1201

# The ladder's own rungs, and the one that names the trouble of a card that is not told to run with PRIV.
$amdsim --gpu gfx1100 --preempt 10 --evict 8 "$zinc" ladder --tier=kfd --to rest >ladder 2>err || miss "ladder: $(grep -A1 FAILED ladder)"
ZINC_AMD_PRIV=0 $amdsim --gpu gfx1100 --preempt 10 "$zinc" ladder --tier=kfd --to rest >ladder 2>err && miss "ladder without PRIV holds"
grep -q 'amdgpu.cwsr_enable=0' ladder err || miss "ladder without PRIV: $(grep -A1 FAILED ladder)"
grep -A1 FAILED ladder

# A second process that fills the memory evicts the first in mid-kernel, with the same end for kernels without PRIV.
ZINC_AMD_PRIV=0 $amdsim --gpu gfx1100 "$zinc" ladder --tier=kfd --to "memory filled" >ladder 2>err && miss "memory filled: holds without PRIV"
grep -A1 'memory filled *FAILED' ladder | grep 'amdgpu.cwsr_enable=0' || miss "memory filled, without PRIV: $(grep -A1 FAILED ladder)"

# gfx1151 on a kernel that counts too few registers: refused, unless it is asked for; what then happens is why.
old="--gpu gfx1151 --kernel-version 6.12"
ends "takes a context save area of 13942784 bytes" "small save area" $old
tokens $old --preempt 700 --inject cwsr-off || miss "small save area, cwsr_enable=0: $(tail -n 2 err)"
export ZINC_KFD_SMALL_SAVE=1
tokens $old || miss "small save area, asked for: $(tail -n 2 err)"
grep -q "memory of this process is overwritten" err || miss "small save area, asked for: no warning in: $(cat err)"
ends "need the save area up to" "small, strict, preempted" $old --strict --preempt 700
tokens $old --preempt 700 && cmp -s out want && miss "a save area that is too small does no harm on the model"
finish
