#!/usr/bin/env bash
# Injected trouble, card by option, the launcher itself, and the files it leaves: none.
set -u
. tests/amdsim/kmd_lib.sh
need client_raw
c=$build/tests/amdsim/client_raw
export AMDSIM_DIR=$(mktemp -d) LD_PRELOAD=
trap 'rm -rf "$AMDSIM_DIR"' EXIT

check "without trouble" "$("$amdsim" "$c" open)" ok
check "no-kfd" "$("$amdsim" --inject no-kfd "$c" open)" ENOENT
check "eacces" "$("$amdsim" --inject eacces "$c" open)" EACCES
check "eacces leaves the topology" "$("$amdsim" --inject eacces cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id)" 50897
check "version" "$("$amdsim" "$c" version)" 1.17
check "old-kernel" "$("$amdsim" --inject old-kernel "$c" version)" 1.5
check "--kernel-version 6.8" "$("$amdsim" --kernel-version 6.8 "$c" version)" 1.14
check "vm-busy" "$("$amdsim" --inject vm-busy "$c" errno acquire)" EBUSY
check "vram-enomem" "$("$amdsim" --inject vram-enomem "$c" errno vram)" ENOMEM
check "--vram" "$("$amdsim" --vram 0 "$c" errno vram)" ENOMEM
check "VRAM that the host sees" "$("$amdsim" "$c" errno public-vram)" ok
check "--small-bar" "$("$amdsim" --small-bar "$c" errno public-vram)" EINVAL
check "--small-bar, the rest" "$("$amdsim" --small-bar "$c" errno vram)" ok
lenient="$amdsim --lenient"
check "a queue" "$($lenient "$c" errno queue)" ok
bells() { "$amdsim" --lenient "$@" 2>&1 >/dev/null | grep -c 'doorbell never mapped.*--plain-offsets'; }
check "a doorbell that is never mapped" "$(bells "$c" errno queue)" 1
check "with --plain-offsets" "$(bells --plain-offsets "$c" errno queue)" 0
check "a program that maps it" "$(bells "$c" fork $(save_area gfx1201))" 0
check "queue-enomem" "$($lenient --inject queue-enomem "$c" errno queue)" ENOMEM
check "sdma-enomem" "$($lenient --inject sdma-enomem "$c" errno sdma)" ENOMEM
check "sdma-enomem leaves compute" "$($lenient --inject sdma-enomem "$c" errno queue)" ok
check "event-enospc" "$("$amdsim" --inject event-enospc "$c" errno event)" ENOSPC
check "eintr" "$("$amdsim" --inject eintr "$c" errno wait)" EINTR

props() { "$amdsim" "$@" cat /sys/devices/virtual/kfd/kfd/topology/nodes/1/properties; }
check "gfx_target_version" "$(props --gpu gfx1151 | awk '/^gfx_target/ {print $2}')" 110501
check "unsupported-chip" "$(props --inject unsupported-chip | awk '/^gfx_target/ {print $2}')" 100300
check "cwsr_size" "$(props | awk '/^cwsr_size/ {print $2}')" 30699520
check "no-cwsr-keys" "$(props --inject no-cwsr-keys | grep -c cwsr_size)" 0
check "small BAR: two banks" "$(props --small-bar | awk '/^mem_banks_count/ {print $2}')" 2

check "listing" "$("$amdsim" ls /dev/dri | tr '\n' ' ')" "by-path card0 renderD128 "
check "a device node" "$("$amdsim" stat -c '%F %t %T' /dev/dri/renderD128)" "character special file e2 80"
check "where a link leads" "$("$amdsim" readlink -f /sys/dev/char/226:128/device)" \
    /sys/devices/pci0000:a0/0000:a0:01.1/0000:a3:00.0
check "a shell below it" "$("$amdsim" sh -c 'test -c /dev/kfd && cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id')" 50897
check "other files" "$("$amdsim" head -c 200 tests/run)" "$(head -c 200 tests/run)"

check "exit status" "$("$amdsim" sh -c 'exit 7'; echo $?)" 7
check "no command" "$("$amdsim" 2>/dev/null; echo $?)" 2
check "unknown card" "$("$amdsim" --gpu gfx900 true 2>/dev/null; echo $?)" 2
check "unknown option" "$("$amdsim" --fast true 2>/dev/null; echo $?)" 2
check "unknown program" "$("$amdsim" /no/such/program 2>/dev/null; echo $?)" 127
check "unknown trouble is told" "$("$amdsim" --inject rain "$c" open 2>&1 | grep -c 'nothing to inject that is called rain')" 1
check "--list" "$("$amdsim" --list | wc -l)" 8
sh -c '"$1" sh -c "cat /sys/class/kfd/kfd/topology/generation_id >/dev/null; kill -9 \$\$"' - "$amdsim" 2>/dev/null
"$amdsim" cat /sys/class/kfd/kfd/topology/generation_id >/dev/null
check "directories left behind" "$(ls -A "$AMDSIM_DIR" | wc -l)" 0
check "no such folder" "$(AMDSIM_DIR=/nowhere "$amdsim" "$c" open 2>&1 | grep -c 'under /nowhere: No such file or directory; set AMDSIM_DIR')" 1
exit $bad
