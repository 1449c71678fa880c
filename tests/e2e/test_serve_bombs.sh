#!/usr/bin/env bash
# Grammars that take a server's time, beside a client that reads a stream: the stream goes on, each bomb is answered by a
# line, and the server ends when it is told to. The largest gap between two tokens is printed, not judged: what may hold up
# what is counted in tests/unit/test_sched_grammar.c, and a stream that stands still does not come to its end here.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"

hi='"messages":[{"role":"user","content":"Tell me a story."}],"ignore_eos":true'
doubling=$(for i in $(seq 0 59); do printf 'a%d ::= a%d a%d | \\"\\"\\n' $i $((i + 1)) $((i + 1)); done)
bombs=(
    '"grammar":"root ::= (.?){8000}"'
    '"grammar":"root ::= s\ns ::= \"\" | [^x] s [^x] | [^y] s [^y] | [^z] s"'
    '"grammar":"root ::= ([a-z]? [0-9]? [A-Z]?){6000}"'
    "\"grammar\":\"root ::= a0\\n${doubling}a60 ::= \\\"x\\\"?\""
    '"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"string","pattern":"^(.?){8000}$"}}}'
    '"grammar":"root ::= s\ns ::= \"a\" | [a-z] s s | [a-y] s s | [b-z] s"'
)

# bomb I NAME: sends it; its status and answer come to $work/NAME
bomb()
{
    curl -s -m $patience -w '\n%{http_code}\n' -H 'Content-Type: application/json' -d "{$hi,\"max_tokens\":40,${bombs[$1]}}" \
        "$url/v1/chat/completions" >"$work/$2" 2>/dev/null
}

# gaps NAME N: reads a stream of N tokens; $work/NAME.gap: the tokens it had by its own usage, and the largest gap in ms.
# Events are no measure: text that waits while the client or the server is busy goes out as one event of several tokens.
gaps()
{
    local last=${EPOCHREALTIME/./} now line n=0 most=0 tokens=0
    while read -r line; do
        case $line in "data: {"*) ;; *) continue ;; esac
        now=${EPOCHREALTIME/./}
        [ $n -gt 0 ] && [ $((now - last)) -gt $most ] && most=$((now - last))
        last=$now
        n=$((n + 1))
        [[ $line =~ \"completion_tokens\":\ *([0-9]+) ]] && tokens=${BASH_REMATCH[1]}
    done < <(curl -sN -m $patience -H 'Content-Type: application/json' "$url/v1/chat/completions" \
        -d "{$hi,\"max_tokens\":$2,\"stream\":true,\"stream_options\":{\"include_usage\":true}}")
    echo "$tokens $((most / 1000))" >"$work/$1.gap"
}

n=400
[ -n "$slow_build" ] && n=60
serve bombs -m $model --tier cpu --ctx 1024 --slots 6 --queue 64 --drain 2 --quiet || finish
gaps alone $n
gaps beside $n &
stream=$!
round=0
while kill -0 $stream 2>/dev/null && [ $round -lt 40 ]; do
    jobs_now=
    for i in "${!bombs[@]}"; do
        bomb $i answer.$round.$i &
        jobs_now="$jobs_now $!"
    done
    wait $jobs_now
    round=$((round + 1))
done
wait $stream
read -r got most <"$work/beside.gap"
read -r got_alone most_alone <"$work/alone.gap"
echo "largest gap between two tokens: $most_alone ms alone, $most ms beside $((round * ${#bombs[@]})) bombs ($got tokens)"
[ "$got" = $n ] && [ "$got_alone" = $n ] || miss "the stream has $got tokens, alone it had $got_alone, of $n"
[ $round -gt 0 ] || miss "no bomb was sent"
for f in "$work"/answer.*; do
    case $(tail -n 1 "$f") in
    400) grep -qE 'at once|grammar_too_costly' "$f" || miss "${f##*/}: 400 with $(head -c 300 "$f")" ;;
    200 | 429) ;; # ended by max_tokens before it became costly; the queue was full
    *) miss "${f##*/}: $(tail -n 1 "$f"): $(head -c 300 "$f")" ;;
    esac
done
grep -q grammar_too_costly "$work"/answer.* || miss "no bomb was given up"

# Ended while bombs run. What a drain of 2 seconds takes is printed; that it cuts what runs on, test_serve_http.sh shows.
for i in "${!bombs[@]}" 0 1 2 0 1 2; do
    bomb $i last.$i &
done
await metric_is_over zinc_requests_running 0 "$url" || miss "no bomb runs"
from=${EPOCHREALTIME/./}
serve_end bombs $pid
took=$(((${EPOCHREALTIME/./} - from) / 1000))
echo "ended after $took ms"
wait
finish
