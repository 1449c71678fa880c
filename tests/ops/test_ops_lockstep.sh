#!/usr/bin/env bash
# The GPU kernels, run on the host in lock step, against --exact on the op table: no case wrong, none unsupported. All of
# it in a release build; under sanitizers, which are slow, the cases of some types and of each command. Then Hopper's kernels,
# in the commands that reach them; unit/test_sm90_kernels has each type in each class of rows.
set -u
build=${ZINC_BUILD:-build} ops=${ZINC_BUILD:-build}/tests/ops/test_ops
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know
[ -x "$ops" ] || { echo "no $ops: make tests first"; exit 77; }
filters=("") hopper=(gate_up/ proj/ moe_ wide)
case $build in */sanitize) filters=(/q4_k /q8_0 /mxfp4 /f16 "prompt q8_0" "prompt k 320" moe_down/prompt router/prompt "attn/prompt 512 at"
    "attn/64 two" "attn/64 sinks" "attn/64 gqa 7" 'attn/group 64 two' gdn/64 router/s rope norm/plain norm/weight sample/ragged gather) ;; esac
rc=0
for f in "${filters[@]}"; do
    out=$("$ops" --tier lockstep ${f:+--filter "$f"}) || rc=1
    echo "$f: $(echo "$out" | tail -n 10)"
    [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] || rc=1
done
exit $rc
