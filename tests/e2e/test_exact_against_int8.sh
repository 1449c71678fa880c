#!/usr/bin/env bash
# The canonical int8 arithmetic stays within NMSE 1e-3 of --exact on quantised files, on the same history. Gemma 4 norms
# the sum of its experts: one that was chosen by a hair changes all of it, whatever its weight, hence 1e-2.
. tests/e2e/lib.sh
[ -x "$compare" ] || { echo "no $compare"; exit 1; }
n=16

# compare_type FAMILY TYPE LIMIT SEED...
compare_type()
{
    local seed line prompt
    make_model "$1" "$2" "$work/m.gguf" || return
    for seed in "${@:4}"; do
        prompt=$(ids 60 $seed)
        greedy exact "$work/m.gguf" "$prompt" $n --exact || continue
        greedy int8 "$work/m.gguf" "$prompt" $n || continue
        line=$("$compare" "$3" "$work/int8.ids" "$work/int8.f32" "$work/exact.ids" "$work/exact.f32" \
            --free --overall 2>&1) ||
            miss "$1 $2, prompt $seed: $line"
        printf '%-14s %-11s %s\n' "$1" "$2" "$line"
    done
}

for f in $families; do
    limit=1e-3
    [ "$f" = gemma4-moe ] && limit=1e-2
    for t in $(types "$f"); do
        compare_type "$f" "$t" $limit 3 8
    done
done

# Types of codebooks, whose codes are random here: all of them in a dense model, and two in experts.
for t in NVFP4 IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S TQ1_0 TQ2_0; do
    compare_type qwen3 $t 1e-3 3
    "$zinc" inspect -m "$work/m.gguf" | grep -q " $t  *22 tensors" || miss "qwen3 $t: not in all matrices"
done
compare_type llama-moe IQ2_XXS 1e-3 3
compare_type llama-moe IQ1_M 1e-3 3
finish
