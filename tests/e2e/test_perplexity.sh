#!/usr/bin/env bash
# zinc perplexity: its number is the one that follows from the logits of `zinc run`, position by position; it does not
# depend on how windows are evaluated; what cannot be measured is told in one line.
. tests/e2e/lib.sh
text=tests/peer/text.txt

# ppl MODEL [options]: perplexity and the mean likelihood as JSON has them, speed left out; "" after a failure
ppl()
{
    local m=$1
    shift
    "$zinc" perplexity -q --json -m "$m" "$@" 2>"$work/log" | sed 's/, "tps".*//; s/.*"kv": "[a-z0-9_]*", //'
}
field() # JSON NAME
{
    sed "s/.*\"$2\": \([-+.e0-9]*\).*/\1/" <<<"$1"
}

# by_hand MODEL WINDOW WINDOWS: the mean negative log-likelihood, from the logits after each beginning of each window
by_hand()
{
    local m=$1 n=$2 w=0 line k tok
    "$zinc" perplexity -m "$m" --ctx "$n" --chunks "$3" --print-tokens "$text" >"$work/windows" || return
    while read -r -a line; do
        for ((k = n / 2 + 1; k < n; k++)); do
            tok=$(printf '%s,' "${line[@]:0:k}")
            "$zinc" run -q -m "$m" --prompt-tokens "$tok" -n 1 --temp 0 --ignore-eos --print-tokens \
                --dump-logits "$work/l.f32" >/dev/null 2>"$work/log" || { miss "run: $(cat "$work/log")"; return; }
            od -An -v -w4 -t f4 "$work/l.f32" | awk -v id="${line[k]}" '{ l[NR - 1] = $1; if (NR == 1 || $1 > m) m = $1 }
                END { for (i = 0; i < NR; i++) s += exp(l[i] - m); printf "%.9f\n", log(s) + m - l[id] }'
        done
    done <"$work/windows" | awk '{ s += $1; n++ } END { printf "%.9f %d\n", s / n, n }'
}

# llama3 begins each window with its own token; qwen35 is recurrent; both with odd and even windows
for f in llama3 qwen35; do
    make_model $f Q8_0 "$work/$f.gguf" || finish
    for n in 16 9; do
        got=$(ppl "$work/$f.gguf" --ctx $n --chunks 2 --chunk 4 "$text")
        set -- $(by_hand "$work/$f.gguf" $n 2)
        awk -v a="$(field "$got" nll)" -v b="${1:-}" 'BEGIN { exit !(a > 0 && b > 0 && a - b < 1e-5 && b - a < 1e-5) }' ||
            miss "$f, windows of $n: $(field "$got" nll), by hand ${1:-nothing}"
        [ "$(field "$got" tokens_counted)" = "${2:-}" ] || miss "$f, windows of $n: $got, by hand ${2:-no} tokens"
    done
done
m=$work/llama3.gguf
awk '{ if ($1 != 632) exit 1 }' "$work/windows" && miss "the windows of qwen35 begin with llama3's token"
"$zinc" perplexity -m "$m" --ctx 16 --chunks 2 --print-tokens "$text" | awk '{ if ($1 != 632 || NF != 16) exit 1 } END { exit NR != 2 }' ||
    miss "a window does not begin with the model's own token"

# the same number however it is evaluated, and from standard input
want=$(ppl "$m" --ctx 96 "$text")
case $want in *'"perplexity": '[0-9]*) ;; *) miss "no perplexity: $want: $(cat "$work/log")" ;; esac
for o in "--chunk 7" "--chunk 64" "--chunk 512 --threads 1" "--threads 3" "--no-fuse"; do
    got=$(ppl "$m" --ctx 96 $o "$text")
    [ "$got" = "$want" ] || miss "$o: $got instead of $want"
done
[ "$(ppl "$m" --ctx 96 - <"$text")" = "$want" ] || miss "from standard input: another number"
[ "$(ppl "$m" --ctx 96 --chunks 1000 "$text")" = "$want" ] || miss "--chunks 1000: another number"
[ "$(ppl "$m" --ctx 96 --chunks 1 "$text")" != "$want" ] || miss "--chunks 1 changes nothing"
[ "$(ppl "$m" --ctx 96 <"$text" --kv f16 -)" = "$want" ] || miss "--kv f16 is not the default"

# near NAME RATIO [options]: within RATIO of the default's perplexity
near()
{
    local name=$1 ratio=$2 got
    shift 2
    got=$(ppl "$m" --ctx 96 --chunks 2 "$@" "$text")
    awk -v a="$(field "$got" perplexity)" -v b="$(field "$base" perplexity)" -v r="$ratio" \
        'BEGIN { d = a / b - 1; exit !(a > 1 && d < r && d > -r) }' || miss "$name: $got, the cpu tier $base: $(cat "$work/log")"
}
base=$(ppl "$m" --ctx 96 --chunks 2 "$text")
near exact 0.01 --exact
near cpu:exact 0.01 --tier cpu:exact
near "kv f32" 0.02 --kv f32
near "kv q8_0" 0.02 --kv q8_0
near "kv fp8" 0.03 --kv fp8
near "kv rot4" 0.05 --kv rot4
near "kv q4_0" 0.1 --kv q4_0
near "kv rot4, exact" 0.05 --kv rot4 --exact
case $("$zinc" perplexity -q --json -m "$m" --ctx 96 --chunks 1 --tier cpu:q8_0 "$text") in *'"kv": "q8_0"'*) ;; *) miss "the cache's type by a tier's word is not told" ;; esac
if (need_vulkan) >/dev/null; then
    need_vulkan
    near vulkan 0.02 --tier vulkan
fi

# against a reference: itself is 0 away, another type is not, and what the text becomes twice as likely by shows in the ratio
"$zinc" perplexity -q --json -m "$m" --ctx 96 --save-logits "$work/ref" "$text" >"$work/out" 2>"$work/log" || miss "--save-logits: $(cat "$work/log")"
[ "$(sed 's/, "tps".*//; s/.*"kv": "[a-z0-9_]*", //' "$work/out")" = "$want" ] || miss "--save-logits changes the number: $(cat "$work/out")"
got=$(ppl "$m" --ctx 96 --against "$work/ref" "$text")
awk -v kl="$(field "$got" kl)" -v r="$(field "$got" ratio)" -v top="$(field "$got" top1)" \
    'BEGIN { exit !(kl >= 0 && kl < 1e-5 && r > 0.99999 && r < 1.00001 && top > 0.98) }' || miss "against itself: $got"
"$build/quantize" "$m" "$work/q2.gguf" Q2_K --pure 2>"$work/log" || miss "quantize: $(tail -n 1 "$work/log")"
got=$(ppl "$work/q2.gguf" --ctx 96 --against "$work/ref" "$text")
awk -v kl="$(field "$got" kl)" -v e="$(field "$got" kl_stderr)" -v r="$(field "$got" ratio)" -v p="$(field "$got" perplexity)" \
    -v q="$(field "$got" reference_perplexity)" -v w="$(field "$want" perplexity)" 'BEGIN { d = p / q - r; exit !(kl > 0.01 && e > 0 && e < kl &&
    d < 1e-4 && d > -1e-4 && q / w < 1.0001 && w / q < 1.0001) }' || miss "Q2_K against Q8_0: $got, the reference alone: $want"
"$zinc" perplexity -q -m "$work/q2.gguf" --ctx 96 --chunks 2 --against "$work/ref" "$text" | grep -q '^divergence  [0-9]' || miss "no line of the divergence"

# what a quantiser asks for
"$zinc" imatrix -q -m "$m" --ctx 96 -f "$text" -o "$work/im.gguf" >"$work/out" 2>"$work/log" || miss "imatrix: $(cat "$work/log")"
"$zinc" imatrix -q -m "$m" --ctx 96 --threads 1 --chunk 32 -f - -o "$work/im1.gguf" <"$text" 2>"$work/log" || miss "imatrix of standard input: $(cat "$work/log")"
low=IQ2_M has=IQ2_S
case $build in */*) low=Q2_K_S has=Q2_K ;; esac # sanitizers search books for minutes
"$build/quantize" "$m" "$work/iq.gguf" $low --imatrix "$work/im.gguf" 2>"$work/log" || miss "quantize --imatrix: $(tail -n 1 "$work/log")"
"$zinc" inspect "$work/iq.gguf" | grep -q "$has" || miss "no $has in $low: $("$zinc" inspect "$work/iq.gguf" | grep -A5 types)"
grep -aq quantize.imatrix.file "$work/iq.gguf" || miss "the file does not tell its importance matrix"
"$build/quantize" "$m" "$work/plain.gguf" $low 2>"$work/log" || miss "quantize: $(tail -n 1 "$work/log")"
[ $low != IQ2_M ] || grep -q 'IQ2_M without --imatrix loses much' "$work/log" || miss "no word on what is missing: $(cat "$work/log")"
cmp -s "$work/iq.gguf" "$work/plain.gguf" && miss "the importance matrix changes nothing"
"$build/quantize" "$m" "$work/one.gguf" $low --imatrix "$work/im.gguf" --threads 1 2>"$work/log" && cmp -s "$work/iq.gguf" "$work/one.gguf" || miss "one thread quantises otherwise"
"$build/quantize" "$m" "$work/none" Q4_K_M --dry-run --tensor-type '*.attn_q.*=Q8_0' | grep -q '^blk.0.attn_q.weight .* =$' || miss "--tensor-type has no effect"
[ "$(stat -c %s "$work/im.gguf")" -ge 10000 ] || miss "the importance matrix is small: $(stat -c %s "$work/im.gguf")"

# what people read
"$zinc" perplexity -m "$m" --ctx 96 "$text" >"$work/out" 2>"$work/log" || miss "exit $?: $(cat "$work/log")"
grep -q "^perplexity  $(printf '%.4f' "$(field "$want" perplexity)") ± " "$work/out" || miss "text and JSON differ: $(cat "$work/out") $want"
grep -q '^counted .* windows of 96$' "$work/out" || miss "no line of windows: $(cat "$work/out")"
"$zinc" help perplexity | grep -q 'llama.cpp' || miss "help does not tell the definition"

# refuses WORDS STATUS COMMAND...: the status, and one line with the words
refuses()
{
    local words=$1 status=$2 rc
    shift 2
    "$@" >"$work/out" 2>"$work/log" </dev/null
    rc=$?
    [ $rc -eq "$status" ] || miss "$*: exit $rc"
    [ "$(wc -l <"$work/log")" -eq 1 ] && grep -q -e "$words" "$work/log" || miss "$*: $(cat "$work/log")"
    [ ! -s "$work/out" ] || miss "$*: standard output got $(head -c 80 "$work/out")"
}
p="$zinc perplexity -q -m $m"
refuses 'has 1 tokens, one window needs 512' 1 $p -
echo 'too short' >"$work/short"
refuses 'tokens, one window needs 64: a longer text' 1 $p --ctx 64 "$work/short"
refuses 'trained for 4096: --ctx 4096 or less' 1 $p --ctx 5000 "$text"
refuses 'at least 8' 1 $p --ctx 4 "$text"
refuses '/nonexistent/text: No such file' 1 $p /nonexistent/text
refuses 'directory' 1 $p "$work"
refuses "'q5_1'" 2 $p --kv q5_1 "$text"
refuses "'nosuch'" 2 $p --tier nosuch "$text"
refuses 'no text' 2 $p
refuses 'no model' 2 "$zinc" perplexity "$text"
refuses "unexpected argument 'b'" 2 $p "$text" b
cp "$m" "$work/ref.gguf"
refuses 'no text' 2 "$zinc" imatrix -m "$m" -o "$work/x"
refuses 'no file to write' 2 "$zinc" imatrix -m "$m" -f "$text"
refuses '/nonexistent/: No such file' 1 "$zinc" imatrix -q -m "$m" --ctx 96 -f "$text" -o /nonexistent/x
make_model qwen3-ragged F32 "$work/other.gguf" || finish
refuses 'is of another model' 1 "$build/quantize" "$work/other.gguf" "$work/x.gguf" IQ2_M --imatrix "$work/im.gguf"
refuses "no importance matrix: general.type is" 1 "$build/quantize" "$m" "$work/x.gguf" IQ2_M --imatrix "$work/ref.gguf"
refuses '/nonexistent/im: cannot open: No such file' 1 "$build/quantize" "$m" "$work/x.gguf" IQ2_M --imatrix /nonexistent/im
refuses 'takes PATTERN=TYPE' 2 "$build/quantize" "$m" "$work/x.gguf" IQ2_M --tensor-type Q8_0
refuses "unknown tensor type 'Q9'" 2 "$build/quantize" "$m" "$work/x.gguf" IQ2_M --tensor-type '*=Q9'
refuses 'windows of 96 tokens, not 64: --ctx 96' 1 $p --ctx 64 --against "$work/ref" "$text"
refuses 'another text: window 1' 1 $p --ctx 96 --chunks 3 --against "$work/ref" README.md
refuses 'no file of --save-logits' 1 $p --ctx 96 --against "$m" "$text"
refuses '/nonexistent/ref: No such file' 1 $p --ctx 96 --against /nonexistent/ref "$text"
printf 'caf\351 au lait\n' >"$work/latin1"
refuses 'not UTF-8: byte 0xe9 at 3, line 1' 1 $p "$work/latin1"
head -c 3000 /dev/urandom >"$work/noise"
refuses 'not UTF-8: byte 0x' 1 $p "$work/noise"

# a weight that is no number: the place is told, and no perplexity
make_model llama3 F32 "$work/nan.gguf" || finish
off=$("$zinc" inspect --tensors --json "$work/nan.gguf" | awk '/"name": "output_norm.weight"/ { here = 1 } here && /"offset"/ { print $2 + 0; exit }')
printf '\377\377\377\377' | dd of="$work/nan.gguf" bs=1 seek=$((off + 16)) conv=notrunc 2>/dev/null
refuses 'window 1 of .* token 49, id [0-9]*: its likelihood is not a number' 1 "$zinc" perplexity -q -m "$work/nan.gguf" --ctx 96 "$text"

if [ -e /dev/full ]; then
    $p --ctx 96 --chunks 1 "$text" >/dev/full 2>"$work/log" && miss "/dev/full: exit 0"
    grep -q 'No space left' "$work/log" || miss "/dev/full: $(cat "$work/log")"
fi
finish
