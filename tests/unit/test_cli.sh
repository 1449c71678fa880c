#!/usr/bin/env bash
# The command line, through the built program: exit statuses, one-line errors, help, options in every spelling.
set -u
build=${ZINC_BUILD:-build}
zinc=$build/zinc
for p in "$zinc" "$build/mkmodel"; do
    [ -x "$p" ] || { echo "no $p: make first"; exit 77; }
done
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-cli.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
export ZINC_MODELS=$work/models # whoever runs this may have a default model
export -n ZINC_BUILD ZINC_SHARED 2>/dev/null
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1}
m=$work/m.gguf
"$build/mkmodel" tiny-qwen3 "$m" >/dev/null 2>&1 || { echo "mkmodel failed"; exit 1; }
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
}

# expect STATUS WORDS COMMAND...: the exit status, and WORDS (a pattern) on stderr; for failures exactly one line there
expect()
{
    local want=$1 words=$2 rc
    shift 2
    timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    [ $rc -eq "$want" ] || miss "exit $rc, expected $want: $*: $(tail -n 1 "$work/err")"
    grep -q -e "$words" "$work/err" || miss "stderr has no '$words': $*: $(tail -n 2 "$work/err")"
    case $want in
    1 | 2)
        [ "$(wc -l <"$work/err")" -eq 1 ] || miss "not one line on stderr: $*: $(cat "$work/err")"
        grep -qE '^(zinc|mkmodel|quantize|amdsim): ' "$work/err" || miss "the line does not start with the program's name: $*: $(cat "$work/err")"
        ;;
    esac
}
# prints PATTERN COMMAND...: success, and the pattern on stdout
prints()
{
    local words=$1
    shift
    timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null || miss "exit $?: $*: $(tail -n 1 "$work/err")"
    grep -q -e "$words" "$work/out" || miss "stdout has no '$words': $*"
}
null="--tier null --temp 0"

# help
prints '^zinc [0-9]' "$zinc" --version
prints 'zinc chat MODEL' "$zinc" --help
prints 'ZINC_LOG' "$zinc" --help-env
"$zinc" help --man <doc/zinc.1.in >"$work/zinc.1" || miss "help --man: exit $?"
grep -n '^@' "$work/zinc.1" && miss "the manual page has lines that nothing was put in for"
for words in 'zinc ladder' '\\-\\-at\\-least' '\\-\\-report' 'ZINC_CPU_ISA' 'XDG_STATE_HOME'; do
    grep -q -- "$words" "$work/zinc.1" || miss "the manual page has no $words"
done
command -v man >/dev/null && man --warnings -l "$work/zinc.1" 2>&1 >/dev/null | grep . && miss "the manual page: see above"
"$zinc" --help | awk 'length > 80 { exit 1 }' || miss "the overview has lines of more than 80 columns"
commands=$("$zinc" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
for c in $commands; do
    "$zinc" "$c" --help | awk 'length > 80 { exit 1 }' || miss "zinc $c --help has lines of more than 80 columns"
done
[ "$(wc -w <<<"$commands")" -ge 13 ] || miss "the overview lists too few commands: $commands"
for c in $commands; do
    grep -q "^\.B zinc $c$" "$work/zinc.1" || miss "the manual page has no synopsis of $c"
    prints "^usage: zinc $c" "$zinc" help $c
    prints "^usage: zinc $c" "$zinc" $c --help
    "$zinc" help $c | awk 'length > 120 { exit 1 }' || miss "help $c has lines of more than 120 columns"
done

# usage errors: status 2
"$zinc" >/dev/null 2>&1
[ $? -eq 2 ] || miss "no arguments: exit is not 2"
expect 2 "did you mean 'run'" "$zinc" rnu
expect 2 "unknown command 'xyzzy'" "$zinc" help xyzzy
expect 2 'did you mean --temp' "$zinc" run -m "$m" --tmep 1
expect 2 'did you mean --prompt-tokens' "$zinc" run -m "$m" --prompt-token 1
expect 2 'unknown option --zzzzzzzz' "$zinc" run -m "$m" --zzzzzzzz
expect 2 'unknown option -z' "$zinc" run -z
expect 2 'needs a value' "$zinc" run -m "$m" --prompt
expect 2 'takes no value' "$zinc" run -m "$m" --prompt x --exact=1
expect 2 "'1.5' is not a whole number" "$zinc" run -m "$m" --prompt x --top-k 1.5
expect 2 "'warm' is not a number" "$zinc" run -m "$m" --prompt x --temp warm
expect 2 "'-1' is not a whole number from 0" "$zinc" run -m "$m" --prompt x --ctx -1
expect 2 'no prompt' "$zinc" run -m "$m"
expect 2 'more than one prompt' "$zinc" run -m "$m" --prompt x --prompt-tokens 1
expect 2 'no model' "$zinc" run --prompt x
expect 2 'unexpected argument' "$zinc" run -m "$m" --prompt x y
expect 2 "did you mean -m $m" "$zinc" ladder "$m"
prints '^tg1 ' "$zinc" bench "$m" -p 0 -n 1 -r 1 --no-roof
expect 2 'm named the model already' "$zinc" check -m "$m" "$m"
expect 2 'needs --chat' "$zinc" run -m "$m" --prompt x --no-think
expect 2 'choose one of' "$zinc" graph -m "$m" --json --dot
for range in 2:2 3:1 1: :2 a -1:2 0:1x 0:1:2 "0: 1" '' 99999999999:1; do
    expect 2 'is not FIRST:END' "$zinc" graph -m "$m" --layers "$range"
done
expect 1 'layers 1:9, expected first < end <= ' "$zinc" graph -m "$m" --layers 1:9
expect 2 'not a list of numbers' "$zinc" bench -m "$m" -p 1,x
# values that cannot be meant: option, value, words of the message
while IFS='|' read -r option value words; do
    expect 2 "$words" "$zinc" run -m "$m" --prompt-tokens 1 -n 1 --tier null "$option" "$value"
done <<'END'
--threads|1000|'1000' is too large
--threads|-1|not a whole number from 0
--device|-1|not a whole number from 0
--n|-5|not a whole number from 0
--ctx|99999999999999|too large: a whole number from 0 to 4294967295
--seed|1e3|'1e3' is not a whole number
--temp|1e99|too large
--temp|nan|'nan' is not a number
--top-p|7|top-p is 7
--typical-p|1.5|typical-p is 1.5
--min-p|2|min-p is 2
--stop||empty text
--kv|f17|not one of: f16 f32 q8_0 fp8 q4_0 rot4; did you mean f16
--plan|replya|did you mean replay
--rope-scaling|yam|linear yarn
--rng|dice|not one of: mt19937 counter
--tier|nosuch|no tier 'nosuch': this binary has auto, .*lockstep
--tier|vulkn|did you mean
--tier|null:quick|'quick'
--tier|null:7|--device 7, or --device-name
--tier|null:7x|'7x' is not a word
--prompt-tokens|1,,2|missing between commas
--prompt-tokens|,1|missing between commas
END
expect 2 'no tier' "$zinc" validate -m "$m" --against nosuch
expect 2 'has 7 rungs' "$zinc" ladder --tier lockstep --from 20
expect 2 'has 7 rungs, the first is 1' "$zinc" ladder --tier lockstep --to 0
expect 2 "no rung of this name (--list shows them)" "$zinc" ladder --tier lockstep --to "one colour"
expect 2 "no rung of this name" "$zinc" ladder --tier lockstep --to 3rd
expect 2 "skip 'nope': .*no rung of this name" "$zinc" ladder --tier lockstep --skip "one kernel,nope"
expect 2 'no rung is left' "$zinc" ladder --tier lockstep --from 3 --to 2
expect 2 'unknown option -v (' "$zinc" run -v
expect 1 'there is no device 99, it has one' "$zinc" run -m "$m" --prompt-tokens 1 $null --device 99
expect 1 "name contains 'foo'" "$zinc" run -m "$m" --prompt-tokens 1 --tier cpu --device-name foo
expect 2 'did you mean tiny-qwen3' "$build/mkmodel" tiny-qwne3 "$work/x.gguf"
expect 2 'did you mean Q4_K_' "$build/quantize" "$m" "$work/x.gguf" Q4_K_X
[ ! -x "$build/amdsim" ] || expect 2 'nothing to inject that is called no-kdf' "$build/amdsim" --inject eintr,no-kdf true

# variables that cannot be meant are told, and the default holds
while IFS='|' read -r assignment words; do
    expect 0 "$words" env "$assignment" "$zinc" run -q -m "$m" --prompt-tokens 1 -n 1 $null
done <<'END'
ZINC_DEBUG=9|ZINC_DEBUG='9' is not a number from 0 to 5
ZINC_KFD_TIMEOUT=soon|ZINC_KFD_TIMEOUT='soon' is not a number
ZINC_VULKAN_WITHOUT=dot4,coopmatt|is not a list of coopmat,coopmat-attn,dot4,bar
ZINC_NOSUCH=1|unknown environment variable ZINC_NOSUCH
END

for n in 1,x '' 1,,2 -1; do
    expect 2 'not a list of numbers' "$zinc" bench -m "$m" "--streams=$n"
done
expect 2 'expected 1 to 256 streams, not 0' "$zinc" bench -m "$m" --streams 4,0
expect 2 'expected 1 to 256 streams, not 257' "$zinc" bench -m "$m" --streams 257
expect 2 'expected one number' "$zinc" bench -m "$m" --streams 2 -p 1,2
expect 2 'expected one number' "$zinc" bench -m "$m" --streams 2 -n 0
expect 2 'it needs --streams' "$zinc" bench -m "$m" --every 5
expect 2 'not with -d' "$zinc" bench -m "$m" --streams 2 -d 0
expect 2 'these measurements need 640' "$zinc" bench -m "$m" --streams 2 --ctx 639
expect 1 'no such file\|No such file' "$zinc" bench -m "$work/none.gguf" --streams 2
expect 2 'ID=NUMBER' "$zinc" run -m "$m" --prompt x --tier null --logit-bias 5

# failures: status 1, one line, before anything is generated
expect 1 '/nonexistent/x.gguf' "$zinc" run -m /nonexistent/x.gguf --prompt x
expect 1 "$work" "$zinc" run -m "$work" --prompt x
expect 1 'test_cli.sh' "$zinc" inspect tests/unit/test_cli.sh
expect 1 '/nonexistent/l' "$zinc" run -m "$m" --prompt x $null --dump-logits /nonexistent/l
expect 1 '\-\-ctx' "$zinc" run -m "$m" --prompt-tokens 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20 $null --ctx 16
expect 1 'prompt is empty\|no tokens' "$zinc" run -m "$m" --prompt-tokens '' $null
expect 1 'GiB free: ' "$zinc" run -m "$m" --prompt x --tier cpu --ctx 200000000
expect 1 '/nonexistent/null' "$zinc" run -m "$m" --prompt-file /nonexistent/null $null

# a reader that goes away ends a command without a word, as other tools do; a full disk is told
for how in "graph -m $m" "graph -m $m --dot" "graph -m $m --stream" "inspect $m --tensors" "run -m $m --prompt-tokens 1,2 -n 60 $null" \
    "help" "help serve"; do
    (trap '' PIPE; "$zinc" $how 2>"$work/err" | true) # also where whoever began it ignores the signal
    [ -s "$work/err" ] && grep -vE '^(decode|prompt) |tok/s' "$work/err" | grep -q 'zinc: ' && miss "zinc $how | true: $(cat "$work/err")"
done
[ -e /dev/full ] && {
    echo hello world >"$work/text"
    echo 5 6 >"$work/ids"
    while read -r from program how; do
        timeout 60 "$build/$program" $how <"$from" >/dev/full 2>"$work/err"
        [ $? -eq 1 ] || miss "$program $how >/dev/full: not exit 1"
        [ "$(grep -cE "^$program: .*(No space left|not be written)" "$work/err")" -eq 1 ] || miss "$program $how >/dev/full: $(cat "$work/err")"
    done <<END
/dev/null zinc graph -m $m
/dev/null zinc graph -m $m --stream
/dev/null zinc inspect $m
$work/text zinc tokenize -m $m
$work/ids zinc detokenize -m $m
/dev/null zinc bench -m $m --tier null -p 8 -n 4 --json --no-roof
/dev/null zinc eval -q -m models/zinc-demo.gguf --limit 1 --only add_2digit --json
/dev/null zinc check -m $m --tier null
/dev/null zinc validate -m $m --tier null --against null:nofuse -n 2
/dev/null zinc embed -q -m models/zinc-demo.gguf --pooling last hello
/dev/null zinc ladder --list
/dev/null zinc --help
/dev/null zinc --help-env
/dev/null mkmodel --list
/dev/null streamdump --help
END
}

# options in every spelling give the same run
"$zinc" run -m "$m" --prompt-tokens 1,2,3 -n 8 $null --print-tokens >"$work/a" 2>"$work/err" || miss "run"
[ "$(wc -w <"$work/a")" -eq 8 ] && [ "$(wc -l <"$work/a")" -eq 1 ] || miss "--print-tokens: $(cat "$work/a")"
grep -q '^decode tok=8 .*logits=[0-9a-f]\{8\} .*tier=null .*model=m' "$work/err" || miss "stats: $(tail -n 1 "$work/err")"
same() # COMMAND...
{
    "$@" >"$work/b" 2>/dev/null </dev/null || miss "exit $?: $*"
    cmp -s "$work/a" "$work/b" || miss "other tokens: $*"
}
same "$zinc" -m "$m" --prompt-tokens=1,2,3 -n8 --tier=null --temp=0 --print-tokens
same "$zinc" --model "$m" --prompt-tokens '1, 2 3,' --n 8 --tier null --top-k 1 --seed 3 --print-tokens
same env ZINC_TIER=null "$zinc" -m "$m" --prompt-tokens 1,2,3 -n 8 --temp 0 --print-tokens -q
same "$zinc" run -m "$m" --prompt-tokens 1,2,3 -n 8 $null --print-tokens --chunk 2 --plan replay --kv f32
same "$zinc" run "$m" --prompt-tokens 1,2,3 -n 8 $null --print-tokens
same "$zinc" run "$m" --prompt-tokens 1,2,3 -n 8 $null --print-tokens --ctx 4096 --rope-scaling yarn
grep -q 'scaled' "$work/err" && miss "positions of a short context are scaled: $(cat "$work/err")"
"$zinc" run "$m" --prompt-tokens 1,2,3 -n 1 $null --ctx 8192 --rope-scaling yarn >/dev/null 2>"$work/err" || miss "yarn: $(cat "$work/err")"
{ grep -q 'scaled by yarn, factor 2: .* 4096' "$work/err" && ! grep -q nonsense "$work/err"; } || miss "a long context: $(cat "$work/err")"
expect 1 'at least 1' "$zinc" run "$m" --prompt-tokens 1 -n 1 $null --ctx 8192 --rope-scaling linear --rope-factor 0.5
expect 1 'without a kind of scaling' "$zinc" run "$m" --prompt-tokens 1 -n 1 $null --rope-factor 2
same "$zinc" "$m" --prompt-tokens 1,2,3 -n 8 $null --print-tokens
"$zinc" run -m "$m" --prompt 'Hello there' -n 8 $null --print-tokens >"$work/a" 2>/dev/null
same "$zinc" run "$m" 'Hello there' -n 8 $null --print-tokens
same "$zinc" run -m "$m" 'Hello there' -n 8 $null --print-tokens
same "$zinc" "$m" 'Hello there' -n 8 $null --print-tokens
printf 'Hello there' | "$zinc" run "$m" -n 8 $null --print-tokens >"$work/b" 2>/dev/null
cmp -s "$work/a" "$work/b" || miss "a prompt on a pipe"
printf 'Hello there' | "$zinc" "$m" -n 8 $null --print-tokens >"$work/b" 2>/dev/null
cmp -s "$work/a" "$work/b" || miss "a prompt on a pipe, and the model alone"
printf 'Hello\n' | "$zinc" chat "$m" -n 4 $null >"$work/b" 2>"$work/err" || miss "chat MODEL: $(cat "$work/err")"
prints 'verdict' "$zinc" check "$m" --tier null
"$zinc" run "$m" x -n 8 --temp 2 --tier null --print-tokens >"$work/a" 2>"$work/err"
same "$zinc" run "$m" x -n 8 --temp 2 --tier null --print-tokens --seed "$(sed -n 's/.* seed=\([0-9]*\) .*/\1/p' "$work/err")"
"$zinc" run -m "$m" --prompt-tokens 1,2,3 -n 8 $null --print-tokens >"$work/a" 2>"$work/err"

# completion: what a shell offers is what the commands take
complete_line() # WORD...: what is offered for the last one
{
    COMP_WORDS=(zinc "$@")
    COMP_CWORD=$#
    _zinc
    echo "${COMPREPLY[@]-}"
}
expect 2 'not one of: bash zsh fish' "$zinc" completion tcsh
"$zinc" completion bash >"$work/completion" && . "$work/completion" 2>"$work/err" || miss "completion bash: $(cat "$work/err")"
[ "$(complete_line ladd)" = ladder ] || miss "completion of ladd: $(complete_line ladd)"
[ "$(complete_line run --prompt-)" = "--prompt-file --prompt-tokens" ] || miss "completion of --prompt-: $(complete_line run --prompt-)"
[ "$(complete_line run --kv f)" = "f16 f32 fp8" ] || miss "completion of --kv f: $(complete_line run --kv f)"
[ "$(complete_line chat --tier nu)" = null ] || miss "completion of --tier nu: $(complete_line chat --tier nu)"
[ "$(complete_line run -m "$work/m.g")" = "$m" ] || miss "completion of a file: $(complete_line run -m "$work/m.g")"
for shell in zsh fish; do
    "$zinc" completion $shell >"$work/completion.$shell"
    for c in $commands; do
        grep -q "$c" "$work/completion.$shell" || miss "completion $shell has no $c"
    done
    grep -q 'at-least' "$work/completion.$shell" || miss "completion $shell has no --at-least"
    ! command -v $shell >/dev/null || $shell -n "$work/completion.$shell" || miss "$shell does not understand its completion"
    command -v $shell >/dev/null || echo "skipped: 1 cases: no $shell here to complete in"
done
[ "$(complete_line completion z)" = zsh ] || miss "completion of completion z: $(complete_line completion z)"
fish_offers() # TEXT WANTED
{
    fish --no-config -c "source $work/completion.fish; complete -C '$1'" 2>&1 | cut -f 1 | grep -qx -e "$2" || miss "fish does not complete '$1' to $2"
}
if command -v fish >/dev/null; then
    fish_offers "zinc ladd" ladder
    fish_offers "zinc run --prompt-" --prompt-tokens
    fish_offers "zinc run --kv f" f32
    fish_offers "zinc chat --tier nu" null
    fish_offers "zinc help lad" ladder
    fish_offers "zinc completion z" zsh
fi
zsh_offers() # TEXT WANTED
{
    zsh -f tests/unit/complete.zsh "$work/zsh" "$1" "$2" 2>"$work/err" || miss "zsh does not complete to $2: $(cat "$work/err")"
}
if command -v zsh >/dev/null; then
    mkdir "$work/zsh" && cp "$work/completion.zsh" "$work/zsh/_zinc"
    zsh_offers "zinc ladd" "er"
    zsh_offers "zinc run --prompt-" "--prompt-tokens"
    zsh_offers "zinc chat --tier nu" "null"
    zsh_offers "zinc completion z" "completion zsh"
fi
[ "$("$zinc" run -q -m "$m" --prompt-tokens 1,2,3 -n 2 $null 2>&1 >/dev/null | wc -c)" -eq 0 ] || miss "-q is not quiet"
"$zinc" graph -m "$m" --save "$work/s" >"$work/plan" 2>&1 && grep -q '^weights' "$work/plan" || miss "graph --save"
same "$zinc" run -m "$m" --stream "$work/s" --prompt-tokens 1,2,3 -n 8 $null --print-tokens

"$zinc" graph -m "$m" --layers 0:1 --save "$work/s" >"$work/plan" 2>&1 || miss "graph --layers: $(cat "$work/plan")"
expect 1 'layers 0:1 of 3, which cannot run alone' "$zinc" run -m "$m" --stream "$work/s" --prompt-tokens 1 -n 1 $null

# outputs
"$zinc" run -m "$m" --prompt-tokens 1,2,3 -n 5 $null --print-tokens --dump-logits "$work/l" >/dev/null 2>&1
[ "$(stat -c %s "$work/l")" -eq $((5 * 640 * 4)) ] || miss "--dump-logits: $(stat -c %s "$work/l") bytes"
prints '"tokens": \[' "$zinc" run -m "$m" --prompt hi -n 5 $null --json
prints '^pp16 .*tok/s' "$zinc" bench -m "$m" --tier null -p 16 -n 8 -d 0,32 --no-roof
prints '"tg8@d32"' "$zinc" bench -m "$m" --tier null -p 0 -n 8 -d 32 --no-roof --json
prints '^equal: null' "$zinc" validate -m "$m" --tier null --against null:nofuse -n 4
expect 1 'no persistent plans' "$zinc" validate -m "$m" --tier cpu --plan persistent --against null -n 2
prints 'plan replay .*no persistent plans' "$zinc" check -m "$m" --tier cpu --plan persistent
prints '^verdict   ready' "$zinc" check -m "$m" --tier null
prints '^verdict' "$zinc" check
"$zinc" check -m "$work/none.gguf" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q '^verdict   not a model that can be read' "$work/out" || miss "check of no file: $(tail -n 1 "$work/out")"
"$zinc" check -m "$m" --tier cpu -c 200000000 >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q '^verdict   it does not fit with this --ctx' "$work/out" || miss "check --ctx: $(tail -n 1 "$work/out")"
prints '^verdict   ready; but the context is longer than the model was trained for' "$zinc" check -m "$m" --tier null --ctx 1000000
expect 0 'was trained for a context of' "$zinc" run -m "$m" --prompt-tokens 1 -n 1 $null --ctx 1000000
expect 2 "'f17' is not one of" "$zinc" check -m "$m" --kv f17
"$zinc" detokenize -m "$m" <<<"5 99999999" >"$work/out" 2>"$work/err"
[ $? -eq 1 ] && grep -q 'token 99999999 is not in the vocabulary' "$work/err" || miss "detokenize of an unknown id: $(cat "$work/err")"
[ "$("$zinc" eval -q -m models/zinc-demo.gguf --limit 1 2>&1 >/dev/null | wc -c)" -eq 0 ] || miss "eval -q is not quiet"
prints '^equal: cpu against cpu:exact: .* [1-9] wide, 0 flips' "$zinc" validate -q -m models/zinc-demo.gguf -n 80
"$zinc" validate -q -m models/zinc-demo.gguf -n 20 --tol 2e-4 --keep-going >"$work/out" 2>&1
grep -q '^DIFFERENT' "$work/out" || miss "validate with a tolerance that many steps miss: $(cat "$work/out")"
prints 'qwen3' "$zinc" inspect "$m" --tensors
prints 'EMBED' "$zinc" graph -m "$m" --stream
prints '^layers 1:2, residual f32 \[8, 256\] at io' "$zinc" graph -m "$m" --stream --layers 1:2
"$zinc" validate -m "$m" --tier null --against cpu -n 2 >"$work/out" 2>&1
[ $? -eq 1 ] && grep -q '^DIFFERENT' "$work/out" && grep -q '^first difference: command 0 EMBED' "$work/out" ||
    miss "null against cpu: $(cat "$work/out")"
"$build/streamdiff" -m "$m" --a null --b cpu >"$work/out" 2>&1
[ $? -eq 1 ] && grep -q 'command 0 EMBED' "$work/out" || miss "streamdiff: $(cat "$work/out")"
"$build/streamdiff" -m "$m" --a cpu --b cpu:nofuse --rows 3 --tol 0 >"$work/out" 2>&1 || miss "streamdiff: $(cat "$work/out")"

# a reader that goes away is no error
"$zinc" run -m "$m" --prompt-tokens 1,2,3 -n 4000 $null --ignore-eos --print-tokens 2>"$work/err" | head -c 10 >/dev/null
[ "${PIPESTATUS[0]}" -eq 0 ] || miss "closed pipe: exit ${PIPESTATUS[0]}: $(cat "$work/err")"
grep -q '^zinc: ' "$work/err" && miss "closed pipe: $(cat "$work/err")"
"$zinc" run -m "$m" --prompt-tokens 1,2,3 -n 4 $null >/dev/full 2>"$work/err" && miss "a full disk is not noticed"

# chat from a pipe: a line a turn, an end at the end
printf 'Hello\n\n/system Be brief\nAnd now?\n' | timeout 60 "$zinc" chat -m "$m" $null -n 6 >"$work/out" 2>"$work/err" || miss "chat: $?"
[ "$(wc -l <"$work/out")" -ge 2 ] || miss "chat: $(cat "$work/out")"
printf '"""one\ntwo"""\n/exit\nnot reached\n' | "$zinc" chat -m "$m" $null -n 6 >"$work/out" 2>"$work/err" || miss "chat: $?"

[ $misses -eq 0 ] || { echo "$misses misses"; exit 1; }
