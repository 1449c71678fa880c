#!/usr/bin/env bash
# `zinc ladder --tier=kfd` on the model of an AMD card: every rung holds on RDNA4 and RDNA3, and a machine that lacks
# something is told where it stops and why.
. tests/e2e/lib.sh
need_amdsim own

# On a machine without a card the first rung says so.
if [ ! -e /dev/kfd ]; then
    "$zinc" ladder --tier=kfd >"$work/out" 2>&1
    rc=$?
    [ $rc -eq 11 ] || miss "no device: exit $rc instead of 11: $(tail -n 1 "$work/out")"
    grep -q 'came: .*/dev/kfd.*No such file' "$work/out" || miss "no device: $(head -n 2 "$work/out" | tail -n 1)"
fi

model=models/zinc-demo.gguf
for gpu in ${LADDER_GPUS:-gfx1201 gfx1100}; do
    last=26
    case $build in */debug | */sanitize) last="one kernel" ;; esac
    # A host that looks for the end takes as much of the processor as most of these kernels; the climbs below look.
    ZINC_AMD_POLL=0 "$amdsim" --gpu $gpu "$zinc" ladder --tier=kfd -m $model -n ${LADDER_TOKENS:-8} --to "$last" \
        --report "$work/$gpu.txt" >"$work/out" 2>"$work/err"
    rc=$?
    [ $rc -eq 0 ] || miss "$gpu: exit $rc: $(grep -A1 FAILED "$work/out" | tr '\n' ' ')$(tail -n 1 "$work/err")"
    sed "s/^/$gpu /" "$work/out" | grep -E '^gfx.... +[0-9]+ '
    # Attention of prompts in wide work-groups wants longer prompts than the table's on cards as large as these, and that of
    # large heads is not for every target: test_kernels_launched holds the objects to the table.
    left=$(grep 'was not run' "$work/$gpu.txt" | awk '$2 !~ /^k_attn_prompt_/ {printf "%s ", $2}')
    [ -z "$left" ] || miss "$gpu: kernels that no case reaches: $left"
    grep -q 'the driver counted [1-9]' "$work/out" || miss "$gpu: nobody was evicted: $(grep -A1 'memory filled' "$work/out")"
    for w in ^gfx_target_version "^parameters: .*amdgpu.cwsr_enable=1" "^firmware by sysfs: .*mec=0x" "^firmware by the driver (3.64): ME .* MES " "^raw pointers: " "^save area: "; do
        grep -q -- "$w" "$work/$gpu.txt" || miss "$gpu: no '$w' in the report"
    done
    ! grep -q unique_id "$work/$gpu.txt" || miss "$gpu: the card's serial number is in the report"
done

# The tiers over a render node have first rungs of their own; of the kernels, which are kfd's, some. Each climbs to the top on one
# card and to the kernels on the other.
for tier in cs umq; do
    "$amdsim" "$zinc" check 2>/dev/null | grep "^tier *$tier " | grep -q yes || continue
    for gpu in gfx1201 gfx1100; do
        last="steps in flight"
        case $tier-$gpu in cs-gfx1100 | umq-gfx1201) last="every kernel" ;; esac
        case $build in */debug | */sanitize) last="one kernel" ;; esac
        "$amdsim" --gpu $gpu "$zinc" ladder --tier=$tier -m $model -n ${LADDER_TOKENS:-8} --filter matmul/q4_k --to "$last" \
            --report "$work/$tier-$gpu.txt" >"$work/out" 2>"$work/err"
        rc=$?
        [ $rc -eq 0 ] || miss "$tier, $gpu: exit $rc: $(grep -A1 FAILED "$work/out" | tr '\n' ' ')$(tail -n 1 "$work/err")"
        grep -q "^ *[0-9]*  $last  *ok " "$work/out" || miss "$tier, $gpu: no rung '$last'"
        sed "s/^/$tier, $gpu /" "$work/out" | grep -E '^[a-z]+, gfx.... +[0-9]+ '
        for w in "^kernel: " "^parameters: .*amdgpu.lockup_timeout=0" "^firmware by the driver (3.64): ME .* MES " "^driver: amdgpu 3" "fence cells"; do
            grep -q -- "$w" "$work/$tier-$gpu.txt" || miss "$tier, $gpu: no '$w' in the report"
        done
    done
done
if "$amdsim" "$zinc" check 2>/dev/null | grep '^tier *cs ' | grep -q yes; then
    "$amdsim" --inject no-kernel-queues "$zinc" ladder --tier=cs --to 5 >"$work/out" 2>&1
    rc=$?
    [ $rc -eq 14 ] && grep -q 'amdgpu.user_queue=2' "$work/out" || miss "cs, no rings: exit $rc instead of 14"
    "$amdsim" --inject hang --lockup-ms 200 "$zinc" ladder --tier=cs --to 5 >"$work/out" 2>&1
    rc=$?
    [ $rc -eq 15 ] && grep -q 'the user fence reads 0, *expected' "$work/out" || miss "cs, hang: exit $rc: $(grep came "$work/out")"
fi

# Rungs that fail name themselves in the exit status.
"$amdsim" --inject no-kfd "$zinc" ladder --to 3 >"$work/out" 2>&1
rc=$?
[ $rc -eq 11 ] || miss "no /dev/kfd: exit $rc instead of 11"
"$amdsim" --inject old-kernel "$zinc" ladder --to 3 >"$work/out" 2>&1
[ $? -eq 11 ] && grep -q 'speaks version 1.5 .*needs 1.14' "$work/out" || miss "an old kernel: $(cat "$work/out")"
"$amdsim" --inject eacces "$zinc" ladder --to 3 >"$work/out" 2>&1
rc=$?
[ $rc -eq 11 ] && grep -q 'usermod -aG render' "$work/out" || miss "no permission: exit $rc: $(sed -n 2p "$work/out")"
# What a device that failed is found in goes into the report.
"$amdsim" --inject hang "$zinc" ladder --to 7 --report "$work/hang.txt" >"$work/out" 2>&1
rc=$?
[ $rc -eq 16 ] || miss "a queue that never fetches: exit $rc instead of 16"
for w in "written up to 4 (read pointer 0x0" "ring's last 4 dwords" "context save area" "amdgpu.cwsr_enable=1"; do
    grep -q -- "$w" <(sed -n '/as it stands/,$p' "$work/hang.txt") || miss "a queue that never fetches: no '$w' in the report"
done
"$amdsim" --inject queue-enomem "$zinc" ladder --to 7 --report "$work/hang.txt" >"$work/out" 2>&1
[ $? -eq 14 ] && grep -q 'as it stands' "$work/hang.txt" || miss "no queue: $(tail -n 1 "$work/out")"

# A host that nothing wakes goes on by itself, late; the rungs above can be climbed all the same.
"$amdsim" --inject no-interrupts "$zinc" ladder --to "sleep and wake" --skip 15,LDS\ and\ barrier >"$work/out" 2>&1
rc=$?
[ $rc -eq 27 ] && grep -q 'nothing woke it' "$work/out" || miss "kfd, no interrupts: exit $rc instead of 27: $(grep came "$work/out")"
grep -q '15  rest  *skipped' "$work/out" && grep -q '13  LDS and barrier *skipped' "$work/out" || miss "--skip: $(grep -E ' 1[35] ' "$work/out")"
"$amdsim" --inject no-interrupts "$zinc" ladder --to 18 --skip "rest,sleep and wake" >"$work/out" 2>&1 ||
    miss "kfd, no interrupts, --skip: $(tail -n 1 "$work/out")"
if "$amdsim" "$zinc" check 2>/dev/null | grep '^tier *umq ' | grep -q yes; then
    # its own rung for the driver's fence has no gate: the card may be done before the fence is asked for
    "$amdsim" --inject no-interrupts "$zinc" ladder --tier=umq --to "sleep and wake" --skip "driver's fence,rest" >"$work/out" 2>&1
    rc=$?
    [ $rc -eq 28 ] && grep -q 'nothing woke it' "$work/out" || miss "umq, no interrupts: exit $rc instead of 28: $(grep came "$work/out")"
fi
"$amdsim" "$zinc" ladder --filter nope -m $model --to "every kernel" >"$work/out" 2>&1 && miss "a filter that fits no case proves nothing, and is right"
# What the page for the first hour says of the rungs' numbers.
n=0
while IFS='|' read -r tier name count; do
    "$zinc" ladder --tier=$tier --list >"$work/out" 2>&1 || continue
    n=$((n + 1))
    grep -qE "^ *$count  $name  " "$work/out" || miss "doc/amd-hardware-checklist.md: rung $count of $tier is not '$name'"
done < <(sed -nE 's/^.*`zinc ladder --tier=([a-z]+) --to "([^"]+)"[^|]*\| ([0-9]+) .*$/\1|\2|\3/p' doc/amd-hardware-checklist.md)
[ $n -ge 3 ] || miss "doc/amd-hardware-checklist.md: $n commands with a count of rungs"
"$zinc" ladder --list | grep -q 'doorbell advances' || miss "--list does not list"
"$zinc" ladder --tier=nope >"$work/out" 2>&1
rc=$?
[ $rc -eq 2 ] && grep -q "no tier 'nope'" "$work/out" || miss "an unknown tier: exit $rc: $(cat "$work/out")"
"$zinc" ladder --report /nowhere/x --to 1 >"$work/out" 2>&1
rc=$?
[ $rc -eq 1 ] && grep -q '/nowhere/x: No such file' "$work/out" || miss "a report that cannot be written: exit $rc"
finish
