# tests/real/same_tokens.sh: the released model's tokens and logits against those of tests/real/golden, which
# tests/real/reference.py made with transformers in float32. Sourced by the tests test_same_tokens_*.sh and by cuda.sh,
# from the repository's root, after lib.sh; $real_model is the model.
#
# A reference's tokens are fed, so that every step is judged on the same history. Equal choices, or a tie as zinc validate
# has it: the reference prefers its own by at most three times the error that the limit allows a logit. The limit of NMSE
# is the arithmetic's and holds for the 128 steps of a prompt together; doc/real-model.md has what was found.
golden=tests/real/golden
compare_logits=${ZINC_BUILD:-build}/tests/peer/compare_logits
licence=/usr/share/common-licenses/GPL-3 licence_bytes=28216
licence_sha256=2ffbd6742cfb946bcc29145d4f26921246c738cdffb458c690440deae3e827c2
limit_int8=3e-3   # the default arithmetic: 2.0e-3 was the most over 60 prompts
limit_exact=1e-10 # cpu:exact with a cache of f32: what is left is the rounding of float32
limit_f16=3e-6    # cpu:exact with a cache of f16
steps=128

[ -x "$compare_logits" ] || skip "no $compare_logits: make tests"

# golden_names [PATTERN]: the prompts, one a line; by hand REAL_NAMES='(code|list)' leaves fewer
golden_names()
{
    awk -v p="^(${1:-.*})" -v q="^(${REAL_NAMES:-.*})" '$1 ~ p && $1 ~ q { print $1 }' "$golden/tokens.txt"
}

# all_of N LEAST: a miss where fewer prompts were compared than there are
all_of()
{
    [ "$1" -ge "$2" ] || [ -n "${REAL_NAMES:-}" ] || miss "only $1 prompts of $2"
}

# take_prompt NAME: its ids into $prompt and the reference's 128 into $chosen, both separated by commas. 1: it is not here,
# which is told.
take_prompt()
{
    local file=tests/real/prompts/$1.txt name n sum
    read -r name n sum chosen < <(grep "^$1 " "$golden/tokens.txt")
    if [ "$1" = long-01-licence ]; then # a text that Debian carries
        file=$work/licence
        head -c $licence_bytes "$licence" >"$file" 2>/dev/null
        if ! echo "$licence_sha256  $file" | sha256sum -c --status; then
            echo "skipped: 1 case: $licence is not the text that the reference read"
            return 1
        fi
    fi
    "$zinc" tokenize -m "$real_model" <"$file" >"$work/prompt" 2>"$work/log" || { miss "$1: $(tail -n 1 "$work/log")"; return 1; }
    prompt=$(tr ' ' ',' <"$work/prompt")
    [ "$(wc -w <"$work/prompt") $(cksum <"$work/prompt" | cut -d ' ' -f 1)" = "$n $sum" ] && return 0
    miss "$1: $(wc -w <"$work/prompt") ids, not the $n that the reference was given: $(cut -c 1-60 "$work/prompt")"
    return 1
}

# follow NAME OUT [zinc options]: zinc fed the reference's tokens, into $work/OUT.ids and OUT.f32; $steps of them
follow()
{
    local name=$1 out=$2
    shift 2
    "$zinc" run -q -m "$real_model" --prompt-tokens "$prompt" --force "$(echo "$chosen" | cut -d , -f "1-$steps")" \
        --dump-logits "$work/$out.f32" "$@" >"$work/$out.ids" 2>"$work/log" && return 0
    miss "$name: zinc run $*: $(tail -n 1 "$work/log")"
    return 1
}

# judge NAME OUT LIMIT [compare_logits options]: the verdict is told, and a miss where the two differ; each step's NMSE
# goes to $work/OUT.steps
judge()
{
    local name=$1 out=$2 limit=$3 line
    shift 3
    line=$("$compare_logits" "$limit" "$work/$out.ids" "$work/$out.f32" --golden "$golden" "$name" \
        --steps "$work/$out.steps" --overall "$@" 2>&1) || miss "$name: $line"
    echo "$name $out: $line"
}

# alone NAME OUT [zinc options]: zinc's own choices, generated without being fed, are those of $work/OUT.ids until they
# part from the reference's or the answer ends
alone()
{
    local name=$1 out=$2
    shift 2
    "$zinc" run -q -m "$real_model" --prompt-tokens "$prompt" --temp 0 -n "$steps" --print-tokens "$@" >"$work/alone.ids" \
        2>"$work/log" || { miss "$name: $(tail -n 1 "$work/log")"; return; }
    tr ',' '\n' <<<"$chosen" >"$work/golden.ids"
    tr ' ' '\n' <"$work/$out.ids" | paste -d ' ' - "$work/golden.ids" | awk '{ print $1 } $1 != $2 { exit }' >"$work/fed.ids"
    tr ' ' '\n' <"$work/alone.ids" | head -n "$(wc -l <"$work/fed.ids")" >"$work/own.ids"
    [ -s "$work/own.ids" ] && head -n "$(wc -l <"$work/own.ids")" "$work/fed.ids" | cmp -s - "$work/own.ids" ||
        miss "$name: generated $(cut -c 1-60 "$work/alone.ids"), fed $(cut -c 1-60 "$work/$out.ids")"
}

# total OUT: of all that was judged by that name: "steps N same N ties N nmse MEAN median MEDIAN worst WORST"
total()
{
    sort -g "$work/$1.steps" | awk '{ v[NR] = $1; s += $1; same += $2 == "same"; tie += $2 == "tie" }
        END { printf "steps %d same %d ties %d nmse %.2e median %.2e worst %.2e\n", NR, same, tie, s / NR, v[int((NR + 1) / 2)],
              v[NR] }'
}
