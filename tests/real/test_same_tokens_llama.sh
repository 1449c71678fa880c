#!/usr/bin/env bash
# llama.cpp fed the same tokens: it rounds activations to int8 as well, in its own way, so it is as far from the reference
# as that arithmetic is. zinc's error over all prompts may be at most twice llama.cpp's.
. tests/real/lib.sh
. tests/real/same_tokens.sh
. tests/peer/locate.sh
need_real model
peer_locate || skip "$peer_missing"
peer=$build/tests/peer/llama_peer
[ -x "$peer" ] || skip "no $peer: make peer"
"$peer" probe >"$work/log" 2>&1 || skip "llama.cpp cannot be driven: $(tail -n 1 "$work/log")"

limit_both=6e-3 # either's error is its own
# Every third prompt but no long one, for one takes two seconds of a core, or forty. LLAMA_ALL=1 takes all.
n=0 at=0
for name in $(golden_names); do
    case $((++at % 3))$name in [02]* | *long*) [ -n "${LLAMA_ALL:-}" ] || continue ;; esac
    take_prompt "$name" || continue
    if ! "$peer" tokens "$real_model" --threads 1 --prompt-tokens "$prompt" -n $steps --rows 32 --force "$chosen" \
        --dump-logits "$work/llama.f32" >"$work/llama.ids" 2>"$work/log"; then
        miss "$name: llama.cpp: $(tail -n 1 "$work/log")"
        continue
    fi
    follow "$name" cpu -t 1 --tier cpu --force-rows 64 || continue
    judge "$name" llama $limit_int8
    judge "$name" cpu $limit_int8
    line=$("$compare_logits" $limit_both "$work/cpu.ids" "$work/cpu.f32" "$work/llama.ids" "$work/llama.f32" \
        --overall --steps "$work/both.steps" 2>&1) || miss "$name: zinc against llama.cpp: $line"
    echo "$name zinc against llama.cpp: $line"
    n=$((n + 1))
done
for out in cpu llama both; do echo "$out: $(total $out)"; done
all_of $n 18
echo "$(total cpu) $(total llama)" | awk '{ exit !($8 <= 2 * $20) }' || miss "zinc's error is more than twice llama.cpp's"
finish
