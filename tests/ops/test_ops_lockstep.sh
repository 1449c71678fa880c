#!/usr/bin/env bash
# The GPU kernels, run on the host in lock step, against --exact on the op table: no case wrong, none unsupported. Then Hopper's
# kernels, in the commands that reach them; unit/test_sm90_kernels has each type in each class of rows. Under sanitizers, which look
# for what is touched, tests/unit/test_lockstep runs the whole table.
set -u
build=${ZINC_BUILD:-build} ops=${ZINC_BUILD:-build}/tests/ops/test_ops
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know
[ -x "$ops" ] || { echo "no $ops: make tests first"; exit 77; }
case $build in */sanitize) echo "unit/test_lockstep runs the table there; its numbers are the release build's"; exit 77 ;; esac
rc=0
right() # TIER [FILTER]
{
    local out
    out=$("$ops" --tier "$1" ${2:+--filter "$2"}) || rc=1
    echo "$1 ${2-}: $(echo "$out" | tail -n 10)"
    [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] || rc=1
}
right lockstep
for f in gate_up/ proj/ moe_ wide; do
    right lockstep:sm90 "$f"
done
exit $rc
