#!/usr/bin/env bash
# A persistent plan gives the bits of replay: on the host, where its work-groups take turns in any order, with families that between
# them have every kernel of a row's step. A plan that a tier does not have is told, and replay runs.
. tests/e2e/lib.sh
families="qwen3-ragged qwen35moe gemma4-e gpt-oss"
case $build in */sanitize) families="qwen35moe gpt-oss" ;; esac
for f in $families; do
    t=$(types "$f")
    make_model "$f" "${t%% *}" "$work/m.gguf" || continue
    out=$("$zinc" validate -m "$work/m.gguf" --tier lockstep --plan persistent --against lockstep:replay --prompt-tokens 5,6,7 -n 2 --ctx 32 \
        --tol 1e-30 2>&1) || miss "$f: $(tail -n 2 <<<"$out")"
    grep -q '^equal: .*; nmse: median 0, worst 0 ' <<<"$out" || miss "$f: $out"
done
"$zinc" run -m "$work/m.gguf" --tier cpu --plan persistent --prompt-tokens 1,2 -n 2 >/dev/null 2>"$work/err" || miss "cpu: $(cat "$work/err")"
grep -q 'no persistent plans.*is taken' "$work/err" || miss "cpu does not say that it replays: $(cat "$work/err")"
finish
