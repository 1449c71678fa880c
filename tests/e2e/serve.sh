# tests/e2e/serve.sh: servers for tests; sourced after lib.sh.
loadgen=$build/loadgen
"$zinc" serve --help >/dev/null 2>&1 || skip "this zinc has no serve"
serve_pids=
serving= # NAME:PID of those that answer, and are to go on until serve_end
case $build in */sanitize | */debug | */thread) slow_build=1 ;; *) slow_build= ;; esac # then fewer requests
takers= # of take_places
trap 'for p in $serve_pids $takers; do kill -KILL "$p" 2>/dev/null; done; kill $(jobs -pr) 2>/dev/null; wait 2>/dev/null; rm -rf "$work"' EXIT

# curl gives up too: a server that stands still is a miss here, and not the end of everybody's time.
mkdir -p "$work/curl"
echo "max-time = $patience" >"$work/curl/.curlrc"
export CURL_HOME=$work/curl

# serve NAME [options of zinc serve]: starts one and waits until it answers; sets $url and $pid. Its log is $work/NAME.log.
serve()
{
    local name=$1
    shift
    rm -f "$work/$name.url"
    "$zinc" serve --port 0 --ready-file "$work/$name.url" "$@" >"$work/$name.out" 2>"$work/$name.log" &
    pid=$!
    serve_pids="$serve_pids $pid"
    await eval '[ -s "$work/$name.url" ] || ended $pid'
    url=$(cat "$work/$name.url" 2>/dev/null)
    [ -n "$url" ] || {
        miss "$name: the server did not start: $(tail -n 3 "$work/$name.log" | tr '\n' ' ')"
        return 1
    }
    serving="$serving $name:$pid"
}

# how_it_ended NAME STATUS: in one line, with the last words of its log, or what a sanitizer has to say there
how_it_ended()
{
    local how="exit $2" log=$work/$1.log
    [ "$2" -le 128 ] || how="signal $(kill -l "$2")"
    if grep -qE 'Sanitizer|runtime error' "$log"; then
        how="$how: $(grep -m 1 -A 8 -E 'Sanitizer|runtime error' "$log" | tr '\n' ' ')"
    else
        how="$how: $(tail -n 3 "$log" | tr '\n' ' ')"
    fi
    echo "$how"
}

# all_serve: one that has ended by itself is a miss, and the end of the test. In a subshell false, and the test's to tell.
all_serve()
{
    local s p
    for s in $serving; do
        p=${s##*:}
        ended "$p" || continue
        [ "$BASHPID" = $$ ] || return 1
        serve_pids=$(echo " $serve_pids " | sed "s/ $p / /")
        wait "$p"
        miss "${s%:*}: the server has ended by itself: $(how_it_ended "${s%:*}" $?)"
        finish
    done
}

# serve_end NAME PID: SIGTERM, and it must end by itself with 0, without a word from a sanitizer
serve_end()
{
    local name=$1 p=$2 i
    serving=$(echo " $serving " | sed "s/ $name:$p / /")
    kill -TERM "$p" 2>/dev/null || miss "$name: the server is gone"
    await ended "$p" || miss "$name: it goes on after SIGTERM"
    kill -KILL "$p" 2>/dev/null
    wait "$p"
    i=$?
    if [ $i -ne 0 ] || grep -qE 'Sanitizer|runtime error' "$work/$name.log"; then
        miss "$name: after SIGTERM: $(how_it_ended "$name" $i)"
    fi
    serve_pids=$(echo " $serve_pids " | sed "s/ $p / /")
}

# metric NAME URL: a value of /metrics
metric()
{
    curl -s ${key:+-H "Authorization: Bearer $key"} "$2/metrics" | awk -v n="$1" '$1 == n { print $2 }'
}

metric_is() { [ "$(metric "$1" "$3")" = "$2" ]; }           # NAME VALUE URL
metric_is_over() { [ "$(metric "$1" "$3")" -gt "$2" ]; }    # NAME VALUE URL

# all_quiet NAME URL: nothing runs, waits or holds a slot any more
all_quiet()
{
    local m v
    for m in zinc_requests_running zinc_requests_waiting zinc_slots_busy; do
        await metric_is $m 0 "$2" || miss "$1: $m is $(metric $m "$2") when all clients are gone"
    done
    [ "$(metric zinc_requests_failed_total "$2")" = 0 ] || miss "$1: requests failed: $(metric zinc_requests_failed_total "$2")"
    v=$(for m in total finished_total cancelled_total refused_total failed_total expired_total; do
        metric zinc_requests_$m "$2"
    done | tr '\n' ' ')
    echo "$v" | awk '{ exit !($1 == $2 + $3 + $5 + $6 || $1 == $2 + $3 + $4 + $5 + $6) }' ||
        miss "$1: requests do not add up: total, finished, cancelled, refused, failed, expired: $v"
}

# take_places SLOTS QUEUE: clients of $url take all the slots and the queue, again and again, until leave_places
take_places()
{
    local i client
    for ((i = 0; i < $1 + $2; i++)); do
        (
            trap 'kill $client; exit' TERM
            while :; do
                curl -s -o /dev/null -H 'Content-Type: application/json' "$url/v1/completions" \
                    -d '{"prompt":"x","max_tokens":1900,"ignore_eos":true}' &
                client=$!
                wait $client
            done
        ) &
        takers="$takers $!"
    done
    await metric_is zinc_requests_running "$1" "$url" || miss "$1 slots are not taken"
    await metric_is zinc_requests_waiting "$2" "$url" || miss "a queue of $2 is not full"
}
leave_places()
{
    kill $takers
    wait $takers 2>/dev/null
    takers=
}
