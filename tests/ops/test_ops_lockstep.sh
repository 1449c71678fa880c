#!/usr/bin/env bash
# The GPU kernels, run on the host in lock step, against --exact on the whole op table: none wrong, none unsupported.
set -u
ops=${ZINC_BUILD:-build}/tests/ops/test_ops
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know
[ -x "$ops" ] || { echo "no $ops: make tests first"; exit 77; }
out=$("$ops" --tier lockstep)
rc=$?
echo "$out" | tail -n 30
[ $rc -eq 0 ] && [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]]
