#!/usr/bin/env bash
# cpu:exact, in double, against transformers in float32, with a cache of f32: two programs that compute the same function
# from the same weights, so nothing but float32's rounding may be between them. And with the cache of f16 that is the
# default, whose rounding is all that it adds.
. tests/real/lib.sh
. tests/real/same_tokens.sh
need_real model

# A token takes 0.03 s of a core, so three prompts. EXACT_ALL=1 takes the 21 of doc/real-model.md: minutes.
names='(list-01|prose-03|chat-20)' least=3
[ -n "${EXACT_ALL:-}" ] && names='(chat|code-01)' least=21
n=0
for name in $(golden_names "$names"); do
    take_prompt "$name" || continue
    steps=128
    follow "$name" exact -t 1 --tier cpu:exact --kv f32 --force-rows 128 && judge "$name" exact $limit_exact
    steps=16
    follow "$name" f16 -t 1 --tier cpu:exact --force-rows 16 && judge "$name" f16 $limit_f16
    n=$((n + 1))
done
total exact
total f16
all_of $n $least
finish
