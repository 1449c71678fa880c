#!/usr/bin/env bash
# A persistent plan gives the bits of replay: on the host, where its work-groups take turns in any order, with families that between
# them have every kernel of a row's step. A plan that a tier does not have is told, and replay runs.
. tests/e2e/lib.sh
families="qwen3-ragged qwen35moe gemma3n gemma4-e gpt-oss"
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

case $build in */sanitize) finish ;; esac # a build that checks itself runs launch by launch where nobody asks for a plan
# --plan auto: measured when it is asked for and kept; what is kept decides.
export XDG_CACHE_HOME=$work/xdg
make_model qwen3 Q4_0 "$work/m.gguf"
plan() # [ARG]...: the plan that check names, and why
{
    "$zinc" check "$work/m.gguf" --tier lockstep --ctx 32 "$@" 2>&1 | sed -n 's/^runs on .*, plan \(.*\), [0-9]* commands.*/\1/p'
}
kept()
{
    echo "$work"/xdg/zinc/plan-*
}
why=$(plan)
grep -q '^replay (not measured here, which --plan auto does once)$' <<<"$why" || miss "nothing asked for: $why"
[ ! -e "$(kept)" ] || miss "nothing asked for, and $(kept)"
why=$(plan --plan auto)
grep -q '^[a-z]* (measured: replay [0-9.]* us a step, persistent [0-9.]*; kept in .*/plan-[0-9a-f]*)$' <<<"$why" || miss "--plan auto: $why"
first=$("$zinc" run "$work/m.gguf" --tier lockstep --plan replay --ctx 32 --prompt-tokens 1,2 -n 4 --temp 0 --print-tokens 2>"$work/err") || miss "$(cat "$work/err")"
for case in "persistent 1.00:persistent (measured: .*, persistent 1.0;" "persistent failed:replay (the persistent plan failed when it was tried"; do
    sed -i "s/^persistent .*/${case%%:*}/" "$(kept)"
    why=$(plan)
    grep -q "^${case#*:}" <<<"$why" || miss "${case%%:*}: $why"
    out=$("$zinc" run "$work/m.gguf" --tier lockstep --ctx 32 --prompt-tokens 1,2 -n 4 --temp 0 --print-tokens 2>"$work/err") || miss "$(cat "$work/err")"
    [ "$out" = "$first" ] || miss "${case%%:*}: $out, not $first"
done
why=$(ZINC_AUTO=list plan)
grep -q '^replay (ZINC_AUTO=list' <<<"$why" || miss "list: $why"
echo "rubbish" >"$(kept)"
why=$(plan --plan auto)
grep -q '^[a-z]* (measured: ' <<<"$why" || miss "a broken file: $why"
finish
