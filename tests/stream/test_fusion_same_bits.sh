#!/usr/bin/env bash
# A stream with one command per operation gives the same logits, bit for bit, as the fused one: fusion changes where
# numbers go, not what is computed.
. tests/e2e/lib.sh
prompt=$(ids 9 5)
compared=0

for f in $families; do
    t=$(types "$f" | cut -d' ' -f1)
    make_model "$f" "$t" "$work/m.gguf" || continue
    greedy ref "$work/m.gguf" "$prompt" 6 --threads 2 || continue
    "$zinc" graph -m "$work/m.gguf" --no-fuse --save "$work/s.zstream" >/dev/null 2>"$work/log" || {
        miss "$f: zinc graph --no-fuse: $(tail -n 1 "$work/log")"
        continue
    }
    greedy b "$work/m.gguf" "$prompt" 6 --threads 2 --stream "$work/s.zstream" && same_run ref b "$f $t, not fused"
    compared=$((compared + 1))
done
[ $compared -gt 0 ] || miss "nothing was compared"
echo "$compared families compared"
finish
