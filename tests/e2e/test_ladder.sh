#!/usr/bin/env bash
# `zinc ladder --tier=kfd` on the model of an AMD card: every rung holds on RDNA4 and RDNA3, and a machine that lacks
# something is told where it stops and why.
. tests/e2e/lib.sh
need_amdsim

# On a machine without a card the first rung says so.
if [ ! -e /dev/kfd ]; then
    "$zinc" ladder --tier=kfd >"$work/out" 2>&1
    rc=$?
    [ $rc -eq 11 ] || miss "no device: exit $rc instead of 11: $(tail -n 1 "$work/out")"
    grep -q 'came: .*/dev/kfd.*No such file' "$work/out" || miss "no device: $(head -n 2 "$work/out" | tail -n 1)"
fi

model=models/zinc-demo.gguf
for gpu in gfx1201 gfx1100; do
    last=18
    case $build in */debug | */sanitize) last=14 ;; esac
    "$amdsim" --gpu $gpu "$zinc" ladder --tier=kfd -m $model -n ${LADDER_TOKENS:-8} --to $last --report "$work/$gpu.txt" \
        >"$work/out" 2>"$work/err"
    rc=$?
    [ $rc -eq 0 ] || miss "$gpu: exit $rc: $(grep -A1 FAILED "$work/out" | tr '\n' ' ')$(tail -n 1 "$work/err")"
    sed "s/^/$gpu /" "$work/out" | grep -E '^gfx.... +[0-9]+ '
    # Attention of prompts in wide work-groups, and of large heads, wants more shared memory than these cards have, or
    # longer prompts than the table's; RDNA3 takes other kernels for all of it (dispatch_target.mma_add_zero_inexact).
    left=$(grep 'was not run' "$work/$gpu.txt" | awk '$2 !~ /^k_attn_prompt_/ {printf "%s ", $2}')
    [ -z "$left" ] || miss "$gpu: kernels that no case reaches: $left"
    grep -q "gfx_target_version" "$work/$gpu.txt" || miss "$gpu: the report has no topology"
done

# Rungs that fail name themselves in the exit status.
"$amdsim" --inject no-kfd "$zinc" ladder --to 3 >"$work/out" 2>&1
rc=$?
[ $rc -eq 11 ] || miss "no /dev/kfd: exit $rc instead of 11"
"$amdsim" --inject eacces "$zinc" ladder --to 3 >"$work/out" 2>&1
rc=$?
[ $rc -eq 11 ] && grep -q 'usermod -aG render' "$work/out" || miss "no permission: exit $rc: $(sed -n 2p "$work/out")"
"$zinc" ladder --list | grep -q 'doorbell advances' || miss "--list does not list"
"$zinc" ladder --tier=nope >"$work/out" 2>&1
rc=$?
[ $rc -eq 1 ] && grep -q "no tier 'nope'" "$work/out" || miss "an unknown tier: exit $rc: $(cat "$work/out")"
"$zinc" ladder --report /nowhere/x --to 1 >"$work/out" 2>&1
rc=$?
[ $rc -eq 1 ] && grep -q '/nowhere/x: No such file' "$work/out" || miss "a report that cannot be written: exit $rc"
finish
