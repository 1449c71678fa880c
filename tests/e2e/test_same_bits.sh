#!/usr/bin/env bash
# The same logits, bit for bit, with any number of threads, any chunk size, any instruction set, weights packed or read
# from the file, and from a saved stream.
. tests/e2e/lib.sh
prompt=$(ids 70 3)
n=12
case $build in */sanitize) prompt=$(ids 40 3) n=4 ;; esac # the debug build has the rest
variants=0

check_model()
{
    local model=$1 what=$2 c isa
    greedy ref "$model" "$prompt" $n --threads 2 || return
    greedy b "$model" "$prompt" $n --threads 1 && same_run ref b "$what, 1 thread"
    for c in 1 7 64; do
        greedy b "$model" "$prompt" $n --threads 2 --chunk $c && same_run ref b "$what, chunks of $c"
        variants=$((variants + 1))
    done
    for isa in plain avx2 avx512 amx; do
        ZINC_CPU_ISA=$isa greedy b "$model" "$prompt" $n --threads 2 && same_run ref b "$what, $isa"
        variants=$((variants + 1))
    done
    ZINC_CPU_WEIGHTS=mapped greedy b "$model" "$prompt" $n --threads 2 && same_run ref b "$what, mapped weights"
    if "$zinc" graph -m "$model" --save "$work/s.zstream" >/dev/null 2>"$work/log"; then
        greedy b "$model" "$prompt" $n --threads 2 --stream "$work/s.zstream" && same_run ref b "$what, saved stream"
    else
        miss "$what: zinc graph: $(tail -n 1 "$work/log")"
    fi
    variants=$((variants + 3))
}

for f in $families; do
    for t in $(types "$f"); do
        make_model "$f" "$t" "$work/m.gguf" && check_model "$work/m.gguf" "$f $t"
    done
done
echo "$variants variants compared"
finish
