#!/usr/bin/env bash
# Quality in numbers: the perplexity of a text that every Debian carries, by zinc and by llama.cpp on the same files
# and the same token ids, for one weight type of each kind and each type of the KV cache. The released model,
# dequantised to F32, is what all types are made from. doc/perplexity.md has the long table and explains differences.
. tests/real/lib.sh
. tests/peer/locate.sh
need_real model

# A slice of a text of Debian's base-files, by its sum: numbers of other texts would say nothing.
source=/usr/share/common-licenses/GFDL-1.3
text=$work/text
[ -r $source ] || skip "no $source (it is in Debian's base-files)"
tail -c +3001 $source | head -c 6000 >"$text"
sum=$(sha256sum <"$text" | cut -c 1-16)
[ "$sum" = fd7a76febc859eb1 ] || skip "$source has another text (sum $sum of its bytes 3000 to 9000)"

peer_locate || skip "$peer_missing"
peer=$build/tests/peer/llama_peer
"$peer" probe 2>"$work/log" || skip "$(tail -n 1 "$work/log")"

window=256 windows=3
f32=$work/f32.gguf
"$build/quantize" "$real_model" "$f32" F32 2>"$work/log" || { miss "quantize F32: $(tail -n 1 "$work/log")"; finish; }
"$zinc" perplexity -m "$f32" --ctx $window --chunks $windows --print-tokens "$text" >"$work/windows"
[ "$(wc -w <"$work/windows")" -eq $((window * windows)) ] || { miss "$(wc -w <"$work/windows") token ids"; finish; }

# Its ids are the peer's own.
"$peer" tokenize "$f32" --no-special <"$text" 2>/dev/null | tr ' ' '\n' | head -n $((window * windows)) >"$work/peer.ids"
tr ' ' '\n' <"$work/windows" | cmp -s - "$work/peer.ids" || miss "the peer cuts the text into other tokens"

# zinc_ppl NAME MODEL [options], peer_ppl NAME MODEL [options]: a line "NAME number" in the lane's results
zinc_ppl()
{
    local name=$1 m=$2
    shift 2
    echo "$name $("$zinc" perplexity -q --json --threads 1 -m "$m" --ctx $window --chunks $windows "$@" "$text" 2>&1 |
        sed 's/.*"perplexity": \([0-9.e+]*\),.*/\1/')" >>"$results"
}
peer_ppl()
{
    local name=$1 m=$2
    shift 2
    echo "$name $("$peer" perplexity "$m" --threads 1 "$@" <"$work/windows" 2>&1 | sed 's/^perplexity \([0-9.e+]*\) .*/\1/')" >>"$results"
}
measure_type() # TYPE
{
    local t=$1 m=$work/$1.gguf pure=
    [ $t != MXFP4 ] || pure=--pure # no recipe of a dense model has it
    "$build/quantize" "$f32" "$m" $t $pure --threads 1 2>"$work/$t.log" ||
        { echo "$t $(tail -n 1 "$work/$t.log")" >>"$results"; return; }
    zinc_ppl $t "$m"
    peer_ppl $t/peer "$m"
    case $t in
    Q4_0 | Q4_K_M) # the same weights without int8 activations
        "$build/quantize" "$m" "$m.f32" F32 --threads 1 2>"$work/$t.log" && zinc_ppl $t/f32 "$m.f32"
        rm -f "$m.f32"
        ;;
    esac
    rm -f "$m"
}
# The peer's cache of q8_0 needs its flash attention; and it would rotate keys and values before it rounds them.
measure_kv() # TYPE
{
    zinc_ppl kv-$1 "$f32" --kv $1
    case $1 in
    q8_0) LLAMA_ATTN_ROT_DISABLE=1 peer_ppl kv-$1/peer "$f32" --kv $1 --fa ;;
    *) peer_ppl kv-$1/peer "$f32" --kv $1 ;;
    esac
}
lane() # NUMBER NAME...
{
    local results=$work/lane$1 name
    shift
    for name in "$@"; do
        case $name in kv-*) measure_kv "${name#kv-}" ;; *) measure_type "$name" ;; esac
    done
}
# By hand PERPLEXITY_TYPES=all takes those too that are another's with other numbers.
like="Q4_1 Q5_0 Q3_K_M Q4_K_S Q5_K_M"
[ "${PERPLEXITY_TYPES:-}" = all ] || like=
lane 1 F16 Q8_0 Q4_K_M IQ4_NL kv-f32 Q6_K Q4_0 ${like:+Q4_1 Q5_0 Q3_K_M} &
lane 2 kv-f16 IQ4_XS BF16 Q2_K kv-q8_0 Q5_1 MXFP4 ${like:+Q4_K_S Q5_K_M} &
wait
# the cpu tier's f32 is what --exact says
results=$work/lane3 window=64 windows=1
zinc_ppl f32/64 "$f32" --kv f32
zinc_ppl f32/64/exact "$f32" --kv f32 --exact

# within A B PERCENT: the perplexities called A and B are that close
within()
{
    local a b
    a=$(sed -n "s|^$1 ||p" "$work"/lane[123]) b=$(sed -n "s|^$2 ||p" "$work"/lane[123])
    printf '  %-10s %-11s %-16s %-11s ' "$1" "$a" "$2" "$b"
    awk -v a="$a" -v b="$b" -v most="$3" 'BEGIN { if (!(a > 1 && b > 1)) { print "no numbers"; exit 1 }
        d = 100 * (a / b - 1); printf "%+.4f %% of %.4g\n", d, most; exit !(d <= most && d >= -most) }' ||
        miss "$1: '$a', $2: '$b', allowed is $3 %"
}
# The same arithmetic: f32 weights and activations. With an f16 cache the peer rounds queries too.
within f32/64 f32/64/exact 0.01
within kv-f32 kv-f32/peer 0.1
within kv-f16 kv-f16/peer 0.1
# The peer rounds activations to the weights' type F16 or BF16, which zinc does not; and queries to q8_0 as the cache.
within F16 F16/peer 0.1
within BF16 BF16/peer 0.2
within kv-q8_0 kv-q8_0/peer 0.5
# Other types: both round activations to int8, the peer in blocks of 32 or, for K types, of 256. Over so few
# tokens that alone moves either by 1.5 % of what f32 activations give; what is wrong moves it by far more.
for t in Q8_0 Q6_K Q4_K_M IQ4_XS IQ4_NL Q2_K Q4_0 Q5_1 MXFP4 $like; do
    within $t $t/peer 2.5
done
within Q4_0 Q4_0/f32 2
within Q4_K_M Q4_K_M/f32 2
finish
