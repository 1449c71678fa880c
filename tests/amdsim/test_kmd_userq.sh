#!/usr/bin/env bash
# User-mode queues of the render node: the driver's rules, packets and fences, trouble, and when there are none.
set -u
. tests/amdsim/kmd_lib.sh
need client_userq
c=$build/tests/amdsim/client_userq
for gpu in gfx1201 gfx1100; do
    passes "rules on $gpu" "$amdsim" --gpu $gpu "$c" rules
    passes "packets and fences on $gpu" "$amdsim" --gpu $gpu --strict "$c" run
done
passes "a queue that never fetches" "$amdsim" --inject hang "$c" hang
passes "faults" "$amdsim" "$c" fault
passes "a buffer that a queue needs" "$amdsim" "$c" unmap
check "the kernel's line about it" "$("$amdsim" "$c" unmap 2>&1 | grep -c 'is unmapped, the queue stops')" 1
check "page tables that nobody waited for" "$("$amdsim" "$c" early 60000 2>/dev/null)" ran
check "the same with --strict" "$("$amdsim" --strict "$c" early 2>/dev/null)" stopped
check "a fence that is pending for long" "$("$amdsim" --kernel-version 7.0 --lockup-ms 300 "$c" slow 60000 2>/dev/null)" "signalled, stopped"
check "before Linux 7.0" "$("$amdsim" --lockup-ms 300 "$c" slow 1500 60000 2>/dev/null)" "pending, ran"
check "with enough time" "$("$amdsim" --kernel-version 7.0 --lockup-ms 60000 "$c" slow 1500 60000 2>/dev/null)" "pending, ran"

says() { "$amdsim" "$@" "$c" what 2>/dev/null; }
check "offered" "$(says)" "mask 2 slots 8 rings 15: EINVAL"
check "instead of the driver's rings" "$(says --user-queues only)" "mask 2 slots 16 rings 0: EINVAL"
check "switched off" "$(says --user-queues off)" "mask 0 slots 0 rings 15: ENOTSUPP"
check "gfx1151" "$(says --gpu gfx1151)" "mask 0 slots 0 rings 15: ENOTSUPP"
check "old firmware" "$(says --firmware mec=3049)" "mask 0 slots 0 rings 15: ENOTSUPP"
check "firmware that suffices" "$(says --firmware mec=3050,mes=123,me=2780,pfp=2840)" "mask 2 slots 8 rings 15: EINVAL"
check "old firmware of gfx1100" "$(says --gpu gfx1100 --firmware me=2419)" "mask 0 slots 0 rings 15: ENOTSUPP"
check "which 6.16 takes" "$(says --gpu gfx1100 --kernel-version 6.16 --firmware me=2419)" "mask 2 slots 8 rings 15: EINVAL"
check "an older kernel" "$(says --kernel-version 6.15)" "mask 0 slots 0 rings 15: EINVAL"
check "why, with --log" "$("$amdsim" --log --user-queues off "$c" what 2>&1 | grep -c 'amdgpu.user_queue is -1 or 0')" 1
exit $bad
