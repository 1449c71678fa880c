#!/usr/bin/env bash
# Hopper's kernels, run on the host in lock step, in the commands that reach them; unit/test_sm90_kernels has each type in each
# class of rows.
. tests/ops/lockstep.sh
for f in gate_up/ proj/ moe_ router/rows router/expert router/late router/prompt wide; do
    right lockstep:sm90 "$f"
done
exit $rc
