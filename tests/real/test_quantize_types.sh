#!/usr/bin/env bash
# Which type each tensor gets: zinc's quantiser and llama.cpp's own, by recipe, on models with grouped heads and
# enough layers for the rules about first and last ones, with 8 experts, and with rows that K types do not fit.
. tests/real/lib.sh
. tests/peer/locate.sh

peer_locate || skip "$peer_missing"
peer=$build/tests/peer/llama_peer
"$peer" probe 2>"$work/log" || skip "$(tail -n 1 "$work/log")"

# "NAME TYPE" of each tensor that changes
ours() # MODEL RECIPE OPTIONS...
{
    "$build/quantize" "$1" "$work/none.gguf" "${@:2}" --dry-run 2>"$work/log" | awk '$1 ~ /[.]weight$/ && $NF != "=" { print $1, $NF }' | sort
}
theirs() # MODEL FILE_TYPE OPTIONS...
{
    "$peer" quantize "$1" --out "$work/none.gguf" --file-type "${@:2}" --dry-run 2>"$work/log" |
        awk '/ MiB -> .* MiB [(]/ { t = toupper($NF); gsub(/[()]/, "", t); print $(index($2, "]") ? 3 : 4), t }' | sort
}

# general.file_type of each recipe that both write
recipes="Q8_0:7 Q6_K:18 Q5_K_M:17 Q4_K_M:15 Q4_K_S:14 IQ4_XS:30 IQ4_NL:25 Q3_K_M:12 Q2_K:10"
recipes="$recipes Q4_0:2 Q4_1:3 Q5_0:8 Q5_1:9 MXFP4_MOE:38 Q5_K_S:16 Q3_K_S:11 Q3_K_L:13 IQ3_S:26 IQ3_M:27"
recipes="$recipes TQ1_0:36 TQ2_0:37"
# those that the peer writes with an importance matrix alone, and those that look for one
weighed="Q2_K_S:21 IQ3_XS:22 IQ2_XXS:19 IQ2_XS:20 IQ2_S:28 IQ2_M:29 IQ1_S:24 IQ1_M:31 IQ3_XXS:23 IQ4_XS:30 IQ4_NL:25 Q4_0:2 Q5_0:8"
compared=0
for family in "llama3 --layers 16" llama-moe qwen3-ragged; do
    set -- $family
    with=() ones=
    make_model "$1" F32 "$work/m.gguf" ${2:+"$2" "$3"} || continue
    "$zinc" imatrix -q -m "$work/m.gguf" --ctx 64 -f tests/peer/text.txt -o "$work/im.gguf" 2>"$work/log" || miss "$family: $(tail -n 1 "$work/log")"
    for r in $recipes + $weighed; do
        [ $r != + ] || { with=(--imatrix "$work/im.gguf") ones=--ones; continue; }
        ours "$work/m.gguf" "${r%:*}" "${with[@]}" >"$work/a"
        [ -s "$work/a" ] || { miss "$family ${r%:*}: $(tail -n 1 "$work/log")"; continue; }
        theirs "$work/m.gguf" "${r#*:}" $ones >"$work/b"
        cmp -s "$work/a" "$work/b" ||
            miss "$family ${r%:*}: $(diff "$work/a" "$work/b" | grep '^[<>]' | sort -k 2 | head -n 2 | xargs)"
        compared=$((compared + $(wc -l <"$work/a")))
    done
done
[ $compared -gt 500 ] || miss "only $compared tensors were compared"
echo "$compared tensors have the peer's types"
finish
