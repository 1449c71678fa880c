#!/usr/bin/env bash
# Which type each tensor gets: zinc's quantiser and llama.cpp's own, by recipe, on models with grouped heads and
# enough layers for the rules about first and last ones, with 8 experts, and with rows that K types do not fit.
. tests/real/lib.sh
. tests/peer/locate.sh

peer_locate || skip "$peer_missing"
peer=$build/tests/peer/llama_peer
"$peer" probe 2>"$work/log" || skip "$(tail -n 1 "$work/log")"

# types FILE: "NAME TYPE" of each tensor
types()
{
    "$zinc" inspect --tensors --json "$1" | tr -d '",' | awk '$1 == "name:" { n = $2 } $1 == "type:" { print n, $2 }' | sort
}

# general.file_type of each recipe that both write
recipes="Q8_0:7 Q6_K:18 Q5_K_M:17 Q4_K_M:15 Q4_K_S:14 IQ4_XS:30 IQ4_NL:25 Q3_K_M:12 Q2_K:10"
recipes="$recipes Q4_0:2 Q4_1:3 Q5_0:8 Q5_1:9 MXFP4_MOE:38"
compared=0
for family in "llama3 --layers 16" llama-moe qwen3-ragged; do
    set -- $family
    make_model "$1" F32 "$work/m.gguf" ${2:+"$2" "$3"} || continue
    for r in $recipes; do
        "$build/quantize" "$work/m.gguf" "$work/ours.gguf" "${r%:*}" 2>"$work/log" ||
            { miss "$family ${r%:*}: $(tail -n 1 "$work/log")"; continue; }
        "$peer" quantize "$work/m.gguf" --out "$work/theirs.gguf" --file-type "${r#*:}" 2>"$work/log" ||
            { miss "$family ${r%:*}: $(tail -n 1 "$work/log")"; continue; }
        types "$work/ours.gguf" >"$work/a"
        types "$work/theirs.gguf" >"$work/b"
        cmp -s "$work/a" "$work/b" ||
            miss "$family ${r%:*}: $(diff "$work/a" "$work/b" | grep '^[<>]' | sort -k 2 | head -n 2 | xargs)"
        compared=$((compared + $(wc -l <"$work/a")))
    done
done
[ $compared -gt 500 ] || miss "only $compared tensors were compared"
echo "$compared tensors have the peer's types"
finish
