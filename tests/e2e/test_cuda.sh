#!/usr/bin/env bash
# The cuda tier beside the cpu tier on whole models, where there is an NVIDIA GPU: 128 tokens of every family, the same
# bits in every run, chunk and batch, and no allocation in the token loop.
. tests/e2e/lib.sh
why=$("$zinc" check 2>/dev/null | awk '$1 == "tier" && $2 == "cuda" && $3 != "yes" { sub(/^tier +cuda +no +/, ""); print }')
[ -z "$why" ] || skip "no cuda tier here: $why"
prompt=$(ids 70 3)
n=128

for f in $families; do
    for t in F32 $(types "$f"); do
        make_model "$f" "$t" "$work/m.gguf" || continue
        # Quantised prompts go through bf16 products, on Hopper f16, decoding through int8. Reached on an H200: 2.4e-3 (qwen3next Q8_0); with
        # gemma4-moe, whose layers add a dense part and experts, one of them chosen by a hair makes 8.7e-3.
        tol=4e-3
        [ "$f" = gemma4-moe ] && tol=1e-2
        [ "$t" = F32 ] && tol=1e-5
        "$zinc" validate -m "$work/m.gguf" --tier cuda --against cpu:exact -n $n --prompt-tokens "$prompt" --tol $tol \
            -q >"$work/v.out" 2>"$work/v.log" || miss "$f $t: $(tail -n 1 "$work/v.out") $(tail -n 1 "$work/v.log")"
        echo "$f $t: $(tail -n 1 "$work/v.out")"
        greedy ref "$work/m.gguf" "$prompt" 12 --tier cuda || continue
        greedy b "$work/m.gguf" "$prompt" 12 --tier cuda && same_run ref b "$f $t, again"
        for c in 7 16 33; do
            greedy b "$work/m.gguf" "$prompt" 12 --tier cuda --chunk $c && same_run ref b "$f $t, chunks of $c"
        done
        if "$zinc" check 2>/dev/null | grep -q 'kernels for sm_90a'; then
            greedy b "$work/m.gguf" "$prompt" 12 --tier cuda:persistent && same_run ref b "$f $t, as a walk"
        fi
        greedy b "$work/m.gguf" "$prompt" 12 --tier cuda:check && same_run ref b "$f $t, launched one by one"
    done
done
finish
