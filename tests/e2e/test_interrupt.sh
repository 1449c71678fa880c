#!/usr/bin/env bash
# SIGINT ends a generation cleanly: soon, with what was generated, without a signal's death.
. tests/e2e/lib.sh
make_model qwen3 Q8_0 "$work/m.gguf" || finish
set -m # a background job of its own keeps SIGINT enabled
"$zinc" run -m "$work/m.gguf" --prompt-tokens 1,2,3 -n 100000 --ctx 4000000 --ignore-eos --print-tokens \
    >"$work/out" 2>"$work/err" &
pid=$!
sleep 2
kill -INT $pid 2>/dev/null || miss "it ended by itself: $(tail -n 1 "$work/err")"
(sleep 10 && kill -KILL $pid) 2>/dev/null &
watch=$!
wait $pid
rc=$?
kill $watch 2>/dev/null
[ $rc -eq 0 ] || [ $rc -eq 130 ] || miss "exit $rc"
[ "$(wc -w <"$work/out")" -gt 0 ] && [ "$(wc -l <"$work/out")" -eq 1 ] || miss "tokens before the signal are lost"
finish
