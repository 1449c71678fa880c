#!/usr/bin/env bash
# Each command's Vulkan kernels against --exact, once as a stream of few rows and once of many, on the device that
# zinc would take, and a few of them as other devices would run them: without the dot product's instruction, with the
# kernels for cooperative matrices (in loops), and under the validation layer. Mesa's lavapipe is taken where it is installed,
# VK_DRIVER_FILES names another driver.
set -u
build=${ZINC_BUILD:-build}
ops=$build/tests/ops/test_ops
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know
lavapipe=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json 2>/dev/null | head -n 1)
[ -n "${VK_DRIVER_FILES:-}" ] || [ -z "$lavapipe" ] || export VK_DRIVER_FILES=$lavapipe VK_ICD_FILENAMES=$lavapipe
[ -x "$ops" ] || { echo "no $ops: make tests first"; exit 77; }
tier=$("$build/zinc" check 2>/dev/null | awk '$1 == "tier" && $2 == "vulkan"')
[ -n "$tier" ] || { echo "built without the vulkan tier"; exit 77; }
[ "$(echo "$tier" | awk '{ print $3 }')" = yes ] || { echo "no vulkan tier here: $tier"; exit 77; }
echo "$tier"
# Two at a time: lavapipe compiles its kernels for minutes when its own cache is cold.
some()
{
    local f out rc=0
    for f in "$@"; do
        out=$("$ops" --tier vulkan --filter "$f" 2>&1) || rc=1
        echo "$f: $(echo "$out" | tail -n 20)"
        [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] || rc=1
    done
    return $rc
}
rc=0
case $build in
*/sanitize) some /q4_k /q8_0 /mxfp4 /f16 prompt attn/64 gdn/64 router rope norm sample || rc=1 ;;
*)
    some matmul/ add embed &
    some proj gate_up rope attn/ gdn moe_ router norm/ gather argmax sample || rc=1
    wait $! || rc=1
    ;;
esac
# as VARIABLE FILTER...
as()
{
    local set=$1 f out
    shift
    for f in "$@"; do
        out=$(env "$set" "$ops" --tier vulkan --filter "$f" 2>&1) || rc=1
        echo "$set $f: $(echo "$out" | tail -n 3)"
        [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] && [[ $out != *"validation:"* ]] || rc=1
    done
}
as ZINC_VULKAN_WITHOUT=dot4 "prompt q4_k" matmul/q6_k
as ZINC_VULKAN_LOOPS=1 "prompt q4_k" "attn/128 gqa 4"
if "$build/zinc" check >/dev/null 2>&1 && ZINC_VULKAN_VALIDATE=1 "$build/zinc" check 2>/dev/null | grep -q "^tier *vulkan *yes"; then
    as ZINC_VULKAN_VALIDATE=1 "proj/q4_k" "gdn/128" "router/softmax" "attn/64 gqa 2" moe_down/q4_k argmax
else
    echo "without the validation layer (apt-get install vulkan-validationlayers)"
fi
exit $rc
