# tests/e2e/serve.sh: servers for tests; sourced after lib.sh.
loadgen=$build/loadgen
"$zinc" serve --help >/dev/null 2>&1 || skip "this zinc has no serve"
serve_pids=
case $build in */sanitize | */debug | */thread) slow_build=1 ;; *) slow_build= ;; esac # then fewer requests
trap 'for p in $serve_pids; do kill -KILL "$p" 2>/dev/null; done; wait 2>/dev/null; rm -rf "$work"' EXIT

# serve NAME [options of zinc serve]: starts one and waits until it answers; sets $url and $pid. Its log is $work/NAME.log.
serve()
{
    local name=$1 i
    shift
    rm -f "$work/$name.url"
    "$zinc" serve --port 0 --ready-file "$work/$name.url" "$@" >"$work/$name.out" 2>"$work/$name.log" &
    pid=$!
    serve_pids="$serve_pids $pid"
    for i in $(seq 600); do
        [ -s "$work/$name.url" ] && break
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    url=$(cat "$work/$name.url" 2>/dev/null)
    [ -n "$url" ] || {
        miss "$name: the server did not start: $(tail -n 3 "$work/$name.log" | tr '\n' ' ')"
        return 1
    }
}

# serve_end NAME PID: SIGTERM, and it must end by itself with 0, without a word from a sanitizer
serve_end()
{
    local name=$1 p=$2 i
    kill -TERM "$p" 2>/dev/null || miss "$name: the server is gone"
    for i in $(seq 600); do
        kill -0 "$p" 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL "$p" 2>/dev/null
    wait "$p"
    i=$?
    [ $i -eq 0 ] || miss "$name: exit $i after SIGTERM: $(tail -n 3 "$work/$name.log" | tr '\n' ' ')"
    if grep -qE 'Sanitizer|runtime error' "$work/$name.log"; then
        miss "$name: $(grep -m 1 -A 8 -E 'Sanitizer|runtime error' "$work/$name.log" | tr '\n' ' ')"
    fi
    serve_pids=$(echo " $serve_pids " | sed "s/ $p / /")
}

# metric NAME URL: a value of /metrics
metric()
{
    curl -s ${key:+-H "Authorization: Bearer $key"} "$2/metrics" | awk -v n="$1" '$1 == n { print $2 }'
}

# all_quiet NAME URL: nothing runs, waits or holds a slot any more, within two seconds
all_quiet()
{
    local i m v
    for m in zinc_requests_running zinc_requests_waiting zinc_slots_busy; do
        for i in $(seq 20); do
            v=$(metric $m "$2")
            [ "$v" = 0 ] && break
            sleep 0.1
        done
        [ "$v" = 0 ] || miss "$1: $m is ${v:-missing} when all clients are gone"
    done
    [ "$(metric zinc_requests_failed_total "$2")" = 0 ] || miss "$1: requests failed: $(metric zinc_requests_failed_total "$2")"
    v=$(for m in total finished_total cancelled_total refused_total failed_total expired_total; do
        metric zinc_requests_$m "$2"
    done | tr '\n' ' ')
    echo "$v" | awk '{ exit !($1 == $2 + $3 + $5 + $6 || $1 == $2 + $3 + $4 + $5 + $6) }' ||
        miss "$1: requests do not add up: total, finished, cancelled, refused, failed, expired: $v"
}
