#!/usr/bin/env bash
# The default arithmetic on the cpu tier against transformers in float32: 60 prompts, 128 tokens each. Every twelfth is
# evaluated in both ways, many tokens at once and one at a time, and generated without being fed: the bits must be the same.
. tests/real/lib.sh
. tests/real/same_tokens.sh
need_real model

n=0
for name in $(golden_names); do
    take_prompt "$name" || continue
    follow "$name" cpu -t 1 --tier cpu --force-rows 64 || continue
    judge "$name" cpu $limit_int8
    case $((n++ % 12))$name in 0long*) continue ;; 0*) ;; *) continue ;; esac
    follow "$name" single -t 1 --tier cpu --chunk 300 && same_run cpu single "$name: one at a time"
    alone "$name" cpu -t 1 --tier cpu
done
total cpu
all_of $n 59 # the licence may be absent
finish
