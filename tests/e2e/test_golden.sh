#!/usr/bin/env bash
# --exact with an f32 KV cache gives the greedy tokens that Hugging Face transformers computed from the same file, and
# its logits within NMSE 1e-6. tests/golden/NAME.{txt,f32} hold them; doc/golden.md says how they were made.
. tests/e2e/lib.sh
[ -x "$compare" ] || { echo "no $compare"; exit 1; }
limit=1e-6
steps_run=32
skipped=() compared=0
most=1000 # prompts per golden
case $build in */sanitize) most=3 ;; esac

# rows FILE VOCAB ROW...: these rows of an f32 matrix
rows()
{
    local file=$1 bytes=$((4 * $2)) r
    shift 2
    for r; do
        tail -c +$((r * bytes + 1)) "$file" | head -c $bytes
    done
}

# pick LIST STEP...: these entries of a list
pick()
{
    local list=($1) s
    shift
    for s; do
        echo "${list[s]}"
    done
}

# get_model SOURCE SHA256: $model, the file that the golden was made from
get_model()
{
    local kind=${1%% *} rest=${1#* } sum
    model=$work/m.gguf
    case $kind in
    make) "$mkmodel" "${rest%% *}" "$model" ${rest#* } >"$work/log" 2>&1 || {
        miss "$name: mkmodel $rest: $(tail -n 1 "$work/log")"
        return 1
    } ;;
    file)
        model=$rest
        [ -f "$model" ] || {
            skipped+=("$name (no $model)")
            return 1
        }
        ;;
    esac
    sum=$(sha256sum <"$model")
    [ "${sum%% *}" = "$2" ] || {
        miss "$name: $1 is not the file that the golden vectors were made from (sha256 ${sum%% *}, expected $2):" \
            "make them again with tools/train/golden.py"
        return 1
    }
}

# check_prompt PROMPT STEPS TOKENS: one run against its golden; $first_row is its first row in NAME.f32
check_prompt()
{
    local steps=($2) line
    "$zinc" run -m "$model" --prompt-tokens "$1" -n $steps_run --exact --kv f32 --temp 0 --print-tokens \
        --dump-logits "$work/z.f32" >"$work/z.ids" 2>"$work/log" || {
        miss "$name, prompt $((compared_here + 1)): zinc run: $(tail -n 1 "$work/log")"
        return
    }
    if [ "$(cat "$work/z.ids")" != "$3" ]; then
        miss "$name, prompt $((compared_here + 1)): tokens $(cat "$work/z.ids") instead of $3"
        return
    fi
    rows "$work/z.f32" "$vocab" "${steps[@]}" >"$work/a.f32"
    rows "tests/golden/$name.f32" "$vocab" $(seq $first_row $((first_row + ${#steps[@]} - 1))) >"$work/b.f32"
    pick "$3" "${steps[@]}" >"$work/ids"
    line=$("$compare" $limit "$work/ids" "$work/a.f32" "$work/ids" "$work/b.f32" 2>&1) ||
        miss "$name, prompt $((compared_here + 1)): $line"
    nmse=$(echo "$nmse ${line#* worst }" | awk '{ print ($1 + 0 > $2 + 0 ? $1 : $2) }')
}

# check_golden NAME
check_golden()
{
    local name=$1 key rest source sum vocab prompt steps first_row=0 compared_here=0 nmse=0 model=
    while read -r key rest; do
        case $key in
        make | file) source="$key $rest" ;;
        sha256) sum=$rest ;;
        vocab)
            vocab=$rest
            get_model "$source" "$sum" || return
            ;;
        prompt) prompt=$rest ;;
        steps) steps=$rest ;;
        greedy)
            if [ $compared_here -lt $most ]; then
                check_prompt "$prompt" "$steps" "$rest"
                compared_here=$((compared_here + 1))
            fi
            first_row=$((first_row + $(wc -w <<<"$steps")))
            ;;
        esac
    done <"tests/golden/$name.txt"
    [ $((first_row * vocab * 4)) -eq "$(wc -c <"tests/golden/$name.f32")" ] ||
        miss "$name: $name.f32 does not hold $first_row rows of $vocab"
    compared=$((compared + compared_here))
    printf '%-18s %2d prompts, worst NMSE %s\n' "$name" $compared_here "$nmse"
}

for f in tests/golden/*.txt; do
    f=${f##*/}
    check_golden "${f%.txt}"
done
for s in "${skipped[@]}"; do
    echo "skipped: $s"
done
[ $compared -gt 0 ] || miss "no golden vectors were compared"
finish
