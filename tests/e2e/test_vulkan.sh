#!/usr/bin/env bash
# The vulkan tier beside the cpu tier on whole models, on the device that zinc would take (Mesa's lavapipe where there
# is no GPU): the same tokens in every family, and the same bits in every run and chunk.
. tests/e2e/lib.sh
tier=$("$zinc" check 2>/dev/null | awk '$1 == "tier" && $2 == "vulkan"')
[ -n "$tier" ] || skip "built without the vulkan tier"
[ "$(echo "$tier" | awk '{ print $3 }')" = yes ] || skip "no vulkan tier here: $tier"
echo "$tier"
prompt=$(ids 37 3)
n=64

for f in $families; do
    for t in F32 $(types "$f" | cut -d ' ' -f 1); do
        make_model "$f" "$t" "$work/m.gguf" || continue
        # sums in another order round now and then to other f16 or int8 inputs, which the layers behind amplify; and
        # Gemma 4 norms the sum of its experts, so that one chosen by a hair changes all of it
        tol=3e-3
        [ "$t" = F32 ] && tol=1e-5
        [ "$f/$t" = gemma4-moe/F32 ] || [ "$f" != gemma4-moe ] || tol=1e-2
        "$zinc" validate -m "$work/m.gguf" --tier vulkan --against cpu -n $n --prompt-tokens "$prompt" --tol $tol \
            -q >"$work/v.out" 2>"$work/v.log" || miss "$f $t: $(tail -n 1 "$work/v.out") $(tail -n 1 "$work/v.log")"
        printf '%-13s %-12s %s\n' "$f" "$t" "$(tail -n 1 "$work/v.out")"
        [ "$t" != F32 ] || continue
        greedy ref "$work/m.gguf" "$prompt" 12 --tier vulkan || continue
        greedy b "$work/m.gguf" "$prompt" 12 --tier vulkan && same_run ref b "$f $t, again"
        for c in 7 16 33; do
            greedy b "$work/m.gguf" "$prompt" 12 --tier vulkan --chunk $c && same_run ref b "$f $t, chunks of $c"
        done
    done
done
finish
