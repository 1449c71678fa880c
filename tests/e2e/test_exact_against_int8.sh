#!/usr/bin/env bash
# The canonical int8 arithmetic stays within NMSE 1e-3 of --exact on quantised files, on the same history. Gemma 4 norms
# the sum of its experts: one that was chosen by a hair changes all of it, whatever its weight, hence 1e-2.
. tests/e2e/lib.sh
[ -x "$compare" ] || { echo "no $compare"; exit 1; }
n=16

for f in $families; do
    limit=1e-3
    [ "$f" = gemma4-moe ] && limit=1e-2
    for t in $(types "$f"); do
        make_model "$f" "$t" "$work/m.gguf" || continue
        for seed in 3 8; do
            prompt=$(ids 60 $seed)
            greedy exact "$work/m.gguf" "$prompt" $n --exact || continue
            greedy int8 "$work/m.gguf" "$prompt" $n || continue
            line=$("$compare" $limit "$work/int8.ids" "$work/int8.f32" "$work/exact.ids" "$work/exact.f32" \
                --free --overall 2>&1) ||
                miss "$f $t, prompt $seed: $line"
            printf '%-14s %-11s %s\n' "$f" "$t" "$line"
        done
    done
done
finish
