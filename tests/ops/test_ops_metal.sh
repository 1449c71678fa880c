#!/usr/bin/env bash
# Kernels as Metal texts, on build/metalsim, against --exact on the op table: the cases of heads whose prompts take another way
# than elsewhere because a work-group of an Apple GPU has 32 KiB. The whole table: build/metalsim build/tests/ops/test_ops --tier metal.
set -u
build=${ZINC_BUILD:-build} ops=${ZINC_BUILD:-build}/tests/ops/test_ops
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know
case $build in */*) echo "the release build runs it: the kernels' Metal texts are not built for sanitizers"; exit 77 ;; esac
[ -e "$build/libmetalsim.so" ] && [ -x "$ops" ] || { echo "no $build/libmetalsim.so or no $ops in this build"; exit 77; }
export ZINC_METAL_CACHE=none
rc=0
for f in attn/256 attn/512 "attn/prompt 512"; do
    out=$("$build/metalsim" "$ops" --tier metal --filter "$f" 2>&1) || rc=1
    echo "$f: $(echo "$out" | tail -n 10)"
    [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] || rc=1
done
exit $rc
