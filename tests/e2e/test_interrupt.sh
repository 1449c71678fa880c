#!/usr/bin/env bash
# SIGINT ends a generation cleanly: with what was generated, its statistics and exit 130, without a signal's death.
. tests/e2e/lib.sh
make_model qwen3 Q8_0 "$work/m.gguf" || finish
set -m # a background job of its own keeps SIGINT enabled
ZINC_DEBUG=2 "$zinc" run -m "$work/m.gguf" --prompt-tokens 1,2,3 -n 400000 --ctx 400010 --ignore-eos --print-tokens \
    >"$work/out" 2>"$work/err" &
pid=$!
steps() { grep -c '^debug: step ' "$work/err"; }
await eval '[ "$(steps)" -ge 20 ] || ended $pid'
[ "$(steps)" -ge 20 ] || miss "no 20 steps: $(tail -n 1 "$work/err")"
kill -INT $pid 2>/dev/null || miss "it ended by itself: $(tail -n 1 "$work/err")"
await ended $pid
kill -KILL $pid 2>/dev/null && miss "it goes on after SIGINT"
wait $pid
rc=$?
[ $rc -eq 130 ] || miss "exit $rc instead of 130"
# a step's token is printed, or it is the one that the signal came into
tokens=$(wc -w <"$work/out")
[ "$tokens" -ge 20 ] && [ "$tokens" -ge $(($(steps) - 1)) ] || miss "$tokens tokens of $(steps) steps"
[ "$(wc -l <"$work/out")" -eq 1 ] || miss "the line of tokens is not ended"
grep -q '^decode .*end=cancelled' "$work/err" || miss "no statistics: $(tail -n 1 "$work/err")"
finish
