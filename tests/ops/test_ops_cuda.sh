#!/usr/bin/env bash
# Each command's kernels against --exact on an NVIDIA GPU, once as a stream of few rows and once of many.
set -u
build=${ZINC_BUILD:-build}
ops=$build/tests/ops/test_ops
[ -x "$ops" ] || { echo "no $ops: make tests first"; exit 77; }
why=$("$build/zinc" check --tier cuda 2>/dev/null | awk '$1 == "tier" && $2 == "cuda" && $3 != "yes" { sub(/^tier +cuda +no +/, ""); print }')
[ -z "$why" ] || { echo "no cuda tier here: $why"; exit 77; }
out=$("$ops" --tier cuda 2>&1)
rc=$?
echo "$out" | tail -n 40
case $out in *" 0 unsupported"*) ;; *) rc=1 ;; esac
exit $rc
