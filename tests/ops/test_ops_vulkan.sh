#!/usr/bin/env bash
# Each command's Vulkan kernels against --exact, once as a stream of few rows and once of many, on the device that
# zinc would take; VK_LOADER_DRIVERS_SELECT='*lvp*' takes Mesa's lavapipe even where there is a GPU.
set -u
build=${ZINC_BUILD:-build}
ops=$build/tests/ops/test_ops
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know
[ -x "$ops" ] || { echo "no $ops: make tests first"; exit 77; }
tier=$("$build/zinc" check 2>/dev/null | awk '$1 == "tier" && $2 == "vulkan"')
[ -n "$tier" ] || { echo "built without the vulkan tier"; exit 77; }
[ "$(echo "$tier" | awk '{ print $3 }')" = yes ] || { echo "no vulkan tier here: $tier"; exit 77; }
echo "$tier"
filters=("")
case $build in */sanitize) filters=(/q4_k /q8_0 /mxfp4 /f16 prompt attn/64 gdn/64 router rope norm sample) ;; esac
rc=0
for f in "${filters[@]}"; do
    out=$("$ops" --tier vulkan ${f:+--filter "$f"} 2>&1) || rc=1
    echo "$f: $(echo "$out" | tail -n 20)"
    [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] || rc=1
done
exit $rc
