#!/usr/bin/env bash
# A card that is reset while a server answers, on the hardware model: what runs fails and says why; by the render node's ways the
# model is loaded again and answers as before, also who waited meanwhile; by kfd, where the process has lost the card, every
# request and /health say so.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc")
. tests/e2e/serve.sh
need_amdsim
command -v curl >/dev/null || skip "curl is not installed"
export -n ZINC_TIER
make_model llama Q8_0 "$work/m.gguf" || finish
bare=$zinc amdsim=$(realpath "$amdsim")
zinc=$work/zinc
cd "$work" || exit 1 # where reports go

ask() # the answer's text, or the error's message
{
    curl -s --max-time 300 -H 'Content-Type: application/json' "$url/v1/completions" \
        -d '{"prompt":"a b c","max_tokens":6,"temperature":0,"ignore_eos":true}' | grep -oE '"(text|message)" *: *"[^"]*"'
}
health() { curl -s --max-time 60 -o "$work/health" -w '%{http_code}' "$url/health"; }

# begin NAME TIER SIM-OPTIONS
begin()
{
    local name=$1 tier=$2
    shift 2
    printf '#!/bin/sh\nexec %s --gpu gfx1201 %s %s "$@"\n' "$amdsim" "$*" "$bare" >"$work/zinc"
    chmod +x "$work/zinc"
    serve $name --tier $tier -m "$work/m.gguf" --ctx 128 --slots 2
}

tiers=
for t in cs umq; do $bare check 2>/dev/null | grep -q "^tier *$t " && tiers="$tiers $t"; done
for tier in $tiers; do
    begin $tier $tier --reset 500 || continue
    first=$(ask) failed=
    case $first in *text*) ;; *) miss "$tier: $first" ;; esac
    for i in $(seq 40); do
        failed=$(ask)
        [ "$failed" = "$first" ] || break
    done
    case $failed in
    *'was reset'* | *'reset the queue'*) ;;
    *) miss "$tier: the request that the reset met: $failed" ;;
    esac
    again=$(ask) # comes while the model is loaded
    [ "$again" = "$first" ] || miss "$tier: after the reset $again, before it $first"
    grep -q "the model is there again" "$work/$tier.log" || miss "$tier: no line of it: $(tail -n 2 "$work/$tier.log")"
    [ "$(health)" = 200 ] || miss "$tier: health: $(cat health)"
    serve_end $tier $pid
    printf '%-4s %s\n     %s\n' $tier "$failed" "$again"
done

# A card that fails again and again is given up.
if [ -n "$tiers" ]; then
    begin broken cs --hang-insts 1600 || finish
    for i in $(seq 5); do ask >failed; done
    grep -q 'has to be restarted' failed || miss "broken: $(cat failed)"
    [ "$(health)" = 503 ] && grep -q '"failed"' health || miss "broken: health: $(cat health)"
    serve_end broken $pid
fi

begin kfd kfd --reset 500 || finish
for i in $(seq 40); do
    failed=$(ask)
    case $failed in *text*) ;; *) break ;; esac
done
case $failed in *'was reset'*) ;; *) miss "kfd: $failed" ;; esac
case $(ask) in *'has to be restarted'*) ;; *) miss "kfd: it goes on after a reset" ;; esac
[ "$(health)" = 503 ] && grep -q '"failed"' health || miss "kfd: health: $(cat health)"
serve_end kfd $pid
finish
