#!/usr/bin/env bash
# Tokens that the tier draws are those that the host draws from the same logits: with --rng counter a bias of nothing
# (--logit-bias 0=0) leaves the choice to the host.
. tests/e2e/lib.sh
prompt=$(ids 11 5)
n=40
compared=0

# draw NAME MODEL [options]: $work/NAME.ids
draw()
{
    local name=$1 model=$2
    shift 2
    "$zinc" run -m "$model" --prompt-tokens "$prompt" -n $n --ignore-eos --rng counter --print-tokens "$@" \
        >"$work/$name.ids" 2>"$work/$name.log" || miss "$name: zinc run $*: exit $?: $(tail -n 1 "$work/$name.log")"
}

# alike MODEL WHAT [options]
alike()
{
    local model=$1 what=$2
    shift 2
    draw tier "$model" "$@"
    draw host "$model" "$@" --logit-bias 0=0
    cmp -s "$work/tier.ids" "$work/host.ids" ||
        miss "$what: $(cut -c 1-60 "$work/tier.ids") by the tier, $(cut -c 1-60 "$work/host.ids") by the host"
    [ "$(wc -w <"$work/tier.ids")" -eq $n ] || miss "$what: $(wc -w <"$work/tier.ids") tokens of $n"
    compared=$((compared + 1))
}

for f in llama qwen35moe; do
    make_model "$f" "$(types "$f" | cut -d ' ' -f 1)" "$work/m.gguf" || continue
    for tier in cpu cpu:exact; do
        alike "$work/m.gguf" "$f on $tier" --tier $tier --temp 0.8 --top-k 40 --top-p 0.9 --min-p 0.05 --seed 7
        alike "$work/m.gguf" "$f on $tier, hot" --tier $tier --temp 1.7 --top-k 0 --top-p 1 --min-p 0 --seed 8
        alike "$work/m.gguf" "$f on $tier, greedy" --tier $tier --temp 0
    done
    draw again "$work/m.gguf" --temp 1.7 --top-k 0 --top-p 1 --min-p 0 --seed 8
    draw other "$work/m.gguf" --temp 1.7 --top-k 0 --top-p 1 --min-p 0 --seed 9
    cmp -s "$work/again.ids" "$work/other.ids" && miss "$f: another seed, the same tokens"
done
"$zinc" run -m "$work/m.gguf" --prompt-tokens 1 --rng counter --typical-p 0.5 -n 1 >/dev/null 2>"$work/log" &&
    miss "typical-p was accepted with --rng counter"
grep -q typical-p "$work/log" || miss "no word of typical-p: $(cat "$work/log")"

# logits that are no numbers: the choice of nothing is an error, as it is on the host
make_model llama Q8_0 "$work/bad.gguf" && size=$(stat -c %s "$work/bad.gguf") &&
    head -c 60000 /dev/zero | tr '\0' '\377' | dd of="$work/bad.gguf" bs=1 seek=$((size - 60000)) conv=notrunc status=none
for how in "--temp 0" "--temp 1 --rng counter"; do
    "$zinc" run -m "$work/bad.gguf" --prompt-tokens 1,2 $how -n 3 >/dev/null 2>"$work/log" && miss "$how: NaN was chosen"
    grep -q 'no logit is a finite number' "$work/log" || miss "$how: $(tail -n 1 "$work/log")"
done
echo "$compared pairs compared"
finish
