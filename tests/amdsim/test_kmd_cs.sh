#!/usr/bin/env bash
# Submissions to the render node: the kernel's rules call by call, the time limit, and a ring that others share.
set -u
. tests/amdsim/kmd_lib.sh
need client_cs
c=$build/tests/amdsim/client_cs
for gpu in gfx1201 gfx1100; do
    passes "rules on $gpu" "$amdsim" --gpu $gpu "$c" rules
done
passes "what the hardware asks for besides" "$amdsim" --strict "$c" strict
passes "a submission that does not end" "$amdsim" --inject hang --lockup-ms 2000 "$c" timeout
line=$("$amdsim" --inject hang --lockup-ms 200 "$c" timeout 2>&1 | grep -c 'ring comp_1.0.0 timeout after 200 ms')
check "the kernel's line about it" "$line" 1
passes "a launch without a preamble" "$amdsim" "$c" preamble
line=$("$amdsim" "$c" preamble 2>&1 | grep -c 'STATIC_THREAD_MGMT allows no compute unit at all')
check "the model's word about it" "$line" 1
exit $bad
