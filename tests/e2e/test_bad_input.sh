#!/usr/bin/env bash
# Whatever is wrong with the input, one line on stderr says what, exit 1 (2 for the command line), and stdout is empty.
. tests/e2e/lib.sh
make_model qwen3 Q8_0 "$work/m.gguf" || finish
make_model qwen3 Q8_0 "$work/novocab.gguf" --no-vocab || finish
size=$(stat -c %s "$work/m.gguf")

# refused EXIT WORD COMMAND...: the message is one line and holds WORD
refused()
{
    local want=$1 word=$2 rc lines
    shift 2
    timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    lines=$(wc -l <"$work/err")
    [ $rc -eq "$want" ] || miss "exit $rc, expected $want: $* ($(tail -n 1 "$work/err"))"
    [ ! -s "$work/out" ] || miss "stdout is not empty: $*"
    grep -q -e "$word" "$work/err" || miss "the message does not name '$word': $* ($(tail -n 1 "$work/err"))"
    [ "$want" -eq 2 ] || [ "$lines" -eq 1 ] || miss "$lines lines instead of one: $* ($(tr '\n' '|' <"$work/err"))"
}
run() { echo "$zinc" run -m "$1" --prompt-tokens 1,2,3 -n 2; }

refused 1 none.gguf $(run "$work/none.gguf")
refused 1 "$work" $(run "$work")
: >"$work/empty.gguf"
refused 1 empty.gguf $(run "$work/empty.gguf")
echo "this is not a model, it is a line of text" >"$work/text.gguf"
refused 1 text.gguf $(run "$work/text.gguf")
for cut in 3 4 8 23 24 100 1000 20000 $((size / 2)) $((size - 1)); do
    head -c "$cut" "$work/m.gguf" >"$work/cut.gguf"
    refused 1 cut.gguf $(run "$work/cut.gguf")
    refused 1 cut.gguf "$zinc" inspect "$work/cut.gguf"
done
# absurd counts: tensors, keys
for at in 8 16; do
    cp "$work/m.gguf" "$work/count.gguf"
    printf '\377\377\377\377\377\377\377\177' | dd of="$work/count.gguf" bs=1 seek=$at conv=notrunc status=none
    refused 1 count.gguf $(run "$work/count.gguf")
done
printf '\143' | dd of="$work/count.gguf" bs=1 seek=4 conv=notrunc status=none # version 99
refused 1 ersion $(run "$work/count.gguf")

refused 1 novocab "$zinc" run -m "$work/novocab.gguf" --prompt hello -n 2
refused 1 novocab "$zinc" tokenize -m "$work/novocab.gguf"
refused 1 prompt.txt "$zinc" run -m "$work/m.gguf" --prompt-file "$work/prompt.txt" -n 2
refused 1 999999 "$zinc" run -m "$work/m.gguf" --prompt-tokens 1,999999 -n 2
refused 1 32 "$zinc" run -m "$work/m.gguf" --ctx 32 --prompt-tokens "$(ids 100 1)" -n 2
refused 1 nowhere "$zinc" run -m "$work/m.gguf" --prompt-tokens 1,2 -n 2 --print-tokens --dump-logits "$work/nowhere/l.f32"
refused 1 lockstep:sm90 "$zinc" run -m "$work/m.gguf" --prompt-tokens 1,2 -n 2 --tier cpu:sm90
refused 2 nosuchtier "$zinc" run -m "$work/m.gguf" --prompt-tokens 1,2 -n 2 --tier nosuchtier
[ "$(id -u)" -eq 0 ] || { # root reads everything
    cp "$work/m.gguf" "$work/secret.gguf" && chmod 0 "$work/secret.gguf"
    refused 1 secret.gguf $(run "$work/secret.gguf")
}

refused 2 no-such-flag "$zinc" run -m "$work/m.gguf" --no-such-flag
refused 2 nosuchcommand "$zinc" nosuchcommand
refused 2 prompt "$zinc" run -m "$work/m.gguf" -n 2
refused 2 -m "$zinc" run --prompt x
refused 2 many "$zinc" run -m "$work/m.gguf" --prompt x -n many
refused 2 1,x "$zinc" run -m "$work/m.gguf" --prompt-tokens 1,x -n 2

# a file that is cut while its weights are read from it
mkfifo "$work/say"
cp "$work/m.gguf" "$work/shrinks.gguf"
ZINC_CPU_WEIGHTS=mapped "$zinc" chat "$work/shrinks.gguf" --tier cpu --threads 1 --temp 0 -n 2 <"$work/say" >"$work/out" 2>"$work/err" &
pid=$!
exec 3>"$work/say"
echo "Hello" >&3
await test -s "$work/out" || miss "no answer: $(cat "$work/err")"
truncate -s 100000 "$work/shrinks.gguf"
echo "And now?" >&3
exec 3>&-
wait $pid
rc=$?
{ [ $rc = 1 ] && tail -n 1 "$work/err" | grep -q "^zinc: .*shrinks.gguf: became shorter while it was read"; } ||
    miss "a file that shrinks: exit $rc: $(tail -n 2 "$work/err")"
finish
