#!/usr/bin/env bash
# The GPU kernels, run on the host in lock step, against --exact on the op table: no case wrong, none unsupported.
. tests/ops/lockstep.sh
right lockstep
exit $rc
