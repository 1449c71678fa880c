#!/usr/bin/env bash
# libhsakmt, as the distribution built it, on every card: topology, memory, a PM4 queue, events, a fault. It computes a
# smaller context save area than these chips have, so the queue needs --lenient; without it the driver refuses.
set -u
. tests/amdsim/kmd_lib.sh
need client_hsakmt
c=$build/tests/amdsim/client_hsakmt
passes "gfx1201" "$amdsim" --lenient --gpu gfx1201 "$c" 1201 128
passes "gfx1100" "$amdsim" --lenient --gpu gfx1100 "$c" 1100 192
passes "gfx1200" "$amdsim" --lenient --gpu gfx1200 "$c" 1200 64
passes "gfx1151" "$amdsim" --lenient --gpu gfx1151 "$c" 1151 80
passes "a kernel that checks no queue buffers" "$amdsim" --kernel-version 6.8 "$c" 1201 128
why=$("$amdsim" --log "$c" 1201 128 2>&1 >/dev/null | grep -c 'CREATE_QUEUE: context save area of')
check "refusal of its save area" "$why" 1
exit $bad
