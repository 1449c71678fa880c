#!/usr/bin/env bash
# A server that nobody asks anything gives the card's queue back, and takes it again for the next request, whose answer is what it
# was; with ZINC_REST=0 it keeps it. On the hardware model.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc")
. tests/e2e/serve.sh
need_amdsim
command -v curl >/dev/null || skip "curl is not installed"
export -n ZINC_TIER
make_model llama Q8_0 "$work/m.gguf" || finish
bare=$zinc
printf '#!/bin/sh\nexec %s --gpu gfx1201 --stats %s "$@"\n' "$(realpath "$amdsim")" "$bare" >"$work/zinc"
chmod +x "$work/zinc"
zinc=$work/zinc

ask()
{
    curl -s --max-time 300 -H 'Content-Type: application/json' "$url/v1/completions" \
        -d '{"prompt":"a b c","max_tokens":6,"temperature":0,"ignore_eos":true}' | grep -o '"text" *: *"[^"]*"'
}
logged() { [ "$(grep -c -- "$2" "$work/$1.log")" -ge "$3" ]; } # NAME WORDS TIMES

tiers="kfd"
$bare check 2>/dev/null | grep -q '^tier *umq ' && tiers="kfd umq"
for tier in $tiers; do
    ZINC_REST=1 ZINC_LOG=info serve $tier --tier $tier -m "$work/m.gguf" --ctx 128 --slots 2 || continue
    first=$(ask)
    [ -n "$first" ] || miss "$tier: no answer"
    for round in 1 2; do
        await logged $tier "is given back until there is work" $round || miss "$tier: the queue was not given back"
        again=$(ask)
        [ "$again" = "$first" ] || miss "$tier: '$again' after a rest, '$first' before"
        logged $tier "is made again" $round || miss "$tier: the queue was not made again"
    done
    serve_end $tier $pid
    echo "$tier: $(grep -c 'is given back' "$work/$tier.log") times given back, $first"
done
ZINC_REST=0 ZINC_LOG=info serve kept --tier kfd -m "$work/m.gguf" --ctx 128 --slots 2 || finish
ask >/dev/null
sleep 1.5
logged kept "is given back" 1 && miss "ZINC_REST=0: it was given back all the same"
serve_end kept $pid
finish
