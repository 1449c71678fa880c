#!/usr/bin/env bash
# libdrm_amdgpu, as the distribution built it, on every card: queries, buffers, submissions, fences, syncobjs, sharing.
set -u
. tests/amdsim/kmd_lib.sh
need client_drm
c=$build/tests/amdsim/client_drm
passes "gfx1201" "$amdsim" --gpu gfx1201 "$c" 152 64
passes "gfx1100" "$amdsim" --gpu gfx1100 "$c" 145 96
passes "gfx1200" "$amdsim" --gpu gfx1200 "$c" 152 32
passes "gfx1151" "$amdsim" --gpu gfx1151 "$c" 150 40
exit $bad
