#!/usr/bin/env bash
# Each command's Vulkan kernels against --exact, once as a stream of few rows and once of many, on the device that
# zinc would take, and a few of them as other devices would run them: without the dot product's instruction, with the
# kernels for cooperative matrices (in loops), and under the validation layer.
. tests/e2e/lib.sh
ops=$build/tests/ops/test_ops
[ -x "$ops" ] || skip "no $ops: make tests first"
need_vulkan
"$zinc" check 2>/dev/null | grep '^tier *vulkan '
all_right() # OUTPUT
{
    [[ $1 == *" right, 0 wrong, 0 unsupported" ]] && [[ $1 != "0 right"* ]]
}
# Of types that many rows take opened, whose kernels are one module for all: what each has of its own, and each command once.
books=/iq1_,/iq2_,/iq3_,/tq,/nvfp4,opened
of_books=(/opened embed/iq embed/tq embed/nvfp4 matmul/iq2_xs/r matmul/iq3_s/o gate_up/nvfp4 moe_up/iq1_m moe_down/tq1 router/iq2_xs
    "opened nvfp4" "iq2_xxs and q6_k")
# Types whose numbers matmul and embed show: in the other commands they are the same lines (vk/shaders/wdot.glsl, gemm_wtile.glsl)
# behind another ending, which the types that are left show, and each has kernels of its own to compile.
elsewhere=/q4_0,/q4_1,/q5_0,/q5_1,/q2_k,/q3_k,/q5_k,/iq4_nl,/iq4_xs
# Two at a time: lavapipe compiles its kernels for minutes when its own cache is cold.
some()
{
    local f out rc=0
    for f in "$@"; do
        out=$("$ops" --tier vulkan --filter "$f" ${without:+--without "$without"} 2>&1) || { echo "MISS: $f: exit $?" && rc=1; }
        echo "$f: $(echo "$out" | grep -v '^unsupported' | tail -n 20)"
        all_right "$out" || { echo "MISS: $f: $(echo "$out" | tail -n 3)" && rc=1; }
    done
    return $rc
}
# as VARIABLE FILTER...
as()
{
    local set=$1 f out rc=0
    shift
    for f in "$@"; do
        out=$(env "$set" "$ops" --tier vulkan --filter "$f" 2>&1) || { echo "MISS: $set $f: exit $?" && rc=1; }
        echo "$set $f: $(echo "$out" | tail -n 3)"
        [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] && [[ $out != *"validation:"* ]] ||
            { echo "MISS: $set $f: $(echo "$out" | tail -n 3)" && rc=1; }
    done
    return $rc
}
others()
{
    local rc=0
    as ZINC_VULKAN_WITHOUT=dot4 "prompt q4_k" matmul/q6_k || rc=1
    as ZINC_VULKAN_LOOPS=1 "prompt q4_k" "prompt bf16" "attn/128 gqa 4" || rc=1
    if ZINC_VULKAN_VALIDATE=1 "$zinc" check 2>/dev/null | grep -q "^tier *vulkan *yes"; then
        as ZINC_VULKAN_VALIDATE=1 "proj/q4_k" "gdn/128" "router/softmax" "attn/64 gqa 2" moe_down/q4_k argmax || rc=1
    else
        echo "skipped: 6 cases: no validation layer (apt-get install vulkan-validationlayers)"
    fi
    return $rc
}
rc=0
case $build in
*/sanitize)
    # what the host does for a command is one for all types of weights and all devices, whose numbers are the release build's
    some /q4_k moe_down/mxfp4 "prompt q8_0" attn/64 gdn/64 router rope norm sample || rc=1
    ;;
*)
    without=$books
    { some matmul/ add embed; first=$?; others && [ $first -eq 0 ]; } &
    without=$books,$elsewhere some proj gate_up moe_ router || rc=1
    some rope attn/ gdn norm/ gather argmax sample || rc=1
    without= some "${of_books[@]}" || rc=1
    wait $! || rc=1
    ;;
esac
exit $rc
