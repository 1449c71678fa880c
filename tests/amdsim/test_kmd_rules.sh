#!/usr/bin/env bash
# The driver's rules, call by call, and what happens to queues when a program or the GPU misbehaves.
set -u
. tests/amdsim/kmd_lib.sh
need client_raw
c=$build/tests/amdsim/client_raw
for gpu in gfx1201 gfx1200 gfx1151 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150; do
    passes "rules on $gpu" "$amdsim" --gpu $gpu "$c" rules $(save_area $gpu)
done
passes "gfx1151 before Linux 6.18 expects a smaller save area" \
    "$amdsim" --gpu gfx1151 --kernel-version 6.12 "$c" rules 0xD4C000 0x4000 0xD56000
area=$(save_area gfx1201)
passes "fork" "$amdsim" "$c" fork $area
passes "user memory that goes away" "$amdsim" "$c" munmap $area
passes "a queue that never retires" "$amdsim" --inject hang "$c" hang $area
passes "an eviction leaves buffers elsewhere" "$amdsim" --vram 64M "$c" moved $area
passes "a buffer that a queue needs" "$amdsim" "$c" vital $area
line=$("$amdsim" "$c" vital $area 2>&1 >/dev/null | grep -c 'Freeing queue vital buffer')
check "the kernel's line about it" "$line" 1
exit $bad
