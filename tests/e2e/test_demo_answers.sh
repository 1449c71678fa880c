#!/usr/bin/env bash
# The trained demo model answers its held-out tasks: the shipped Q8_0 file within a point of what training measured in
# float32 (100 %), its Q4_K_M form within three.
. tests/e2e/lib.sh
model=models/zinc-demo.gguf
limit=8
case $build in */sanitize | */debug) limit=1 ;; esac

answers()
{
    "$build/zinc" eval -m "$1" --tasks models/zinc-demo.eval.jsonl --limit $limit --at-least "$2" --wrong >"$work/out" 2>"$work/log" ||
        miss "$3: $(tail -n 1 "$work/log"); $(grep -c '^wrong' "$work/out") wrong, first: $(grep -m 1 -A 2 '^wrong' "$work/out" | tr '\n' ' ')"
    echo "$3: $(tail -n 1 "$work/out")"
}

answers "$model" 99 Q8_0
"$build/quantize" "$model" "$work/q4.gguf" Q4_K_M 2>"$work/log" || miss "quantize: $(tail -n 1 "$work/log")"
answers "$work/q4.gguf" 97 Q4_K_M
finish
