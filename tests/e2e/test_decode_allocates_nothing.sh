#!/usr/bin/env bash
# A run of 40 tokens allocates as often as one of 200: the token loop allocates nothing.
. tests/e2e/lib.sh
case $build in */sanitize | */fuzz) skip "sanitizers bring their own allocator" ;; esac
${CC:-gcc} -O1 -shared -fPIC -o "$work/count.so" tests/e2e/malloc_count.c 2>"$work/log" || skip "no preloadable library: $(head -n 1 "$work/log")"

allocations() # MODEL N [options]
{
    local model=$1 n=$2
    shift 2
    MALLOC_COUNT_FD=9 LD_PRELOAD=$work/count.so "$zinc" run -m "$model" --prompt-tokens 1,2,3 -n "$n" --ctx 512 \
        --ignore-eos --print-tokens "$@" 9>"$work/n" >"$work/out" 2>"$work/log" || return 1
    cat "$work/n"
}

for f in qwen3 qwen3moe qwen35moe gpt-oss; do
    make_model "$f" Q8_0 "$work/m.gguf" || continue
    for opt in "" "--temp 0.8 --top-k 40 --top-p 0.9 --repeat-penalty 1.1 --seed 1"; do
        a=$(allocations "$work/m.gguf" 40 $opt) && b=$(allocations "$work/m.gguf" 200 $opt) || {
            miss "$f $opt: $(tail -n 1 "$work/log")"
            continue
        }
        echo "$f ${opt:-greedy}: $a allocations for 40 tokens, $b for 200"
        [ "$a" -eq "$b" ] || miss "$f ${opt:-greedy}: $((b - a)) allocations in 160 tokens"
    done
done
finish
