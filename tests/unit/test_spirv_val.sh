#!/usr/bin/env bash
# Every Vulkan kernel is valid SPIR-V for Vulkan 1.2, by Khronos' validator. Those on cooperative matrices are left out:
# they use KHR's extension, which the validator of Debian 12 does not know (tests/unit/test_spirv_khr.c looks at those).
set -u
command -v spirv-val >/dev/null || { echo "no spirv-val (apt-get install spirv-tools)"; exit 77; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
ls build/kernels/spirv/*.spv build/kernels/spirv_plain/*.spv 2>/dev/null | grep -v 'coopmat\.spv$' >"$work/list"
[ -s "$work/list" ] || { echo "no kernels in build/kernels/spirv: built without glslc"; exit 77; }
xargs -P 2 -I '{}' sh -c 'spirv-val --target-env vulkan1.2 --scalar-block-layout "$1" 2>&1 | sed "s|^|$1: |"' - '{}' <"$work/list" >"$work/log"
if [ -s "$work/log" ]; then
    head -n 20 "$work/log"
    exit 1
fi
head -c 1000 "$(head -n 1 "$work/list")" >"$work/half.spv" # and the validator says so where a kernel is not
spirv-val --target-env vulkan1.2 "$work/half.spv" >/dev/null 2>&1 && { echo "half a kernel was found valid"; exit 1; }
echo "$(wc -l <"$work/list") kernels"
