#!/usr/bin/env bash
# tokenize, detokenize, and the text of a run agree; flags without a subcommand work.
. tests/e2e/lib.sh
make_model llama3 Q8_0 "$work/m.gguf" || finish
m=$work/m.gguf

head -c 4000 tests/peer/text.txt >"$work/text"
"$zinc" tokenize -m "$m" --no-special <"$work/text" >"$work/ids" || miss "tokenize failed"
"$zinc" detokenize -m "$m" <"$work/ids" >"$work/back" || miss "detokenize failed"
cmp "$work/text" "$work/back" || miss "text does not survive tokenize and detokenize"

"$zinc" run -m "$m" --prompt "The stream" -n 12 --temp 0 --ignore-eos --print-tokens >"$work/a" 2>/dev/null || miss "run"
[ "$(wc -w <"$work/a")" -eq 12 ] && [ "$(wc -l <"$work/a")" -eq 1 ] || miss "--print-tokens: $(cat "$work/a")"
"$zinc" -m "$m" --prompt "The stream" -n 12 --temp 0 --ignore-eos --print-tokens --tier=cpu >"$work/b" 2>/dev/null
cmp -s "$work/a" "$work/b" || miss "flags without a subcommand: other tokens"
printf 'The stream' >"$work/p.txt"
"$zinc" run -m "$m" --prompt-file "$work/p.txt" -n 12 --temp 0 --ignore-eos --print-tokens >"$work/b" 2>/dev/null
cmp -s "$work/a" "$work/b" || miss "--prompt-file: other tokens than --prompt"
tokens=$(printf 'The stream' | "$zinc" tokenize -m "$m" | tr ' ' ',')
"$zinc" run -m "$m" --prompt-tokens "$tokens" -n 12 --temp 0 --ignore-eos --print-tokens >"$work/b" 2>/dev/null
cmp -s "$work/a" "$work/b" || miss "--prompt-tokens: other tokens than --prompt"

"$zinc" run -m "$m" --prompt "The stream" -n 20 --temp 0.9 --seed 5 --print-tokens >"$work/a" 2>/dev/null
"$zinc" run -m "$m" --prompt "The stream" -n 20 --temp 0.9 --seed 5 --print-tokens >"$work/b" 2>/dev/null
cmp -s "$work/a" "$work/b" || miss "a seed does not repeat its run"
"$zinc" run -m "$m" --prompt "The stream" -n 20 --temp 0.9 --seed 6 --print-tokens >"$work/b" 2>/dev/null
! cmp -s "$work/a" "$work/b" || miss "another seed gives the same run"
finish
