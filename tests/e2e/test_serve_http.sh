#!/usr/bin/env bash
# zinc serve as operators see it: addresses, keys, TLS, headers, log lines, /health, /metrics, leaving clients, signals.
# The demo model on the cpu tier; curl is the client.
. tests/e2e/lib.sh
model=models/zinc-demo.gguf
[ -f "$model" ] || skip "no $model"
command -v curl >/dev/null || skip "no curl"
servers=
trap 'kill -9 $servers 2>/dev/null; rm -rf "$work"' EXIT

# serve NAME [options]: starts one, waits until it answers; $pid, $url, its stderr in $work/NAME.log. False: it ended.
serve()
{
    local name=$1
    shift
    rm -f "$work/$name.ready"
    "$zinc" serve -m "$model" --tier cpu --port 0 --ready-file "$work/$name.ready" "$@" 2>"$work/$name.log" &
    pid=$!
    servers="$servers $pid"
    await eval '[ -f "$work/$name.ready" ] || ended $pid'
    [ -f "$work/$name.ready" ] || return 1
    url=$(cat "$work/$name.ready")
}
# ends PID STATUS WHAT: waits for it
ends()
{
    wait "$1"
    local rc=$?
    [ $rc -eq "$2" ] || miss "$3: exit $rc instead of $2"
}
# answers STATUS PATH [curl options]: head in $work/head, body in $work/body
answers()
{
    local want=$1 path=$2 got
    shift 2
    got=$(curl -s --max-time $patience -o "$work/body" -D "$work/head" -w '%{http_code}' "$@" "$url$path")
    [ "$got" = "$want" ] || miss "$path $*: $got instead of $want: $(head -c 200 "$work/body")"
}
has() # FILE PATTERN
{
    grep -qi -e "$2" "$1" || miss "no '$2' in $(basename "$1"): $(head -c 300 "$1")"
}
metric() # NAME: its value
{
    curl -s --max-time $patience "${auth[@]}" "$url/metrics" | sed -n "s/^$1 //p"
}
# comes_to VALUE NAME: a metric gets there, in the end
comes_to()
{
    await is "$1" "$2" || miss "$2 is $(metric "$2"), not $1"
}
is() { [ "$(metric "$2")" = "$1" ]; }
refuses_connections() # the server of $url listens no more
{
    curl -s --max-time 5 "$url/health" >/dev/null
    [ $? -eq 7 ]
}
# chat TOKENS [more fields]: a request's body
chat()
{
    printf '{"messages":[{"role":"user","content":"Tell me a story."}],"ignore_eos":true,"max_tokens":%s%s}' "$1" "${2:-}"
}

json=(-H 'Content-Type: application/json') # without keys nothing else is read

# ---- options ----
refuses() # STATUS PATTERN options
{
    local want=$1 pattern=$2 rc
    shift 2
    "$zinc" serve -m "$model" --tier cpu "$@" >"$work/out" 2>"$work/err"
    rc=$?
    [ $rc -eq "$want" ] || miss "serve $*: exit $rc instead of $want"
    has "$work/err" "$pattern"
    [ "$(wc -l <"$work/err")" -eq 1 ] || miss "serve $*: not one line: $(cat "$work/err")"
}
printf '# nothing\n' >"$work/empty"
refuses 2 'expected 0 to 65535' --port 70000
refuses 2 'one origin' --cors example.com
refuses 2 '1 to 256' --slots 0
refuses 2 'without a port' --allow-host chat.example.com:80
refuses 2 'at most 200 characters without' --alias 'gpt-[45]'
printf weights >"$work/file"
refuses 1 'a file already' --host "unix:$work/file"
refuses 1 'ready-file .*: cannot be written: No such file' --ready-file "$work/none/ready"
[ "$(cat "$work/file")" = weights ] || miss "--host unix: took a file away"
refuses 1 'no interface of this machine' --host 203.0.113.9
refuses 1 'API keys: .*nosuch' --api-key-file "$work/nosuch"
refuses 1 'no key in it' --api-key-file "$work/empty"
refuses 1 'blank' --api-key 'two words'
refuses 1 'tls-key is missing' --tls-cert "$work/empty"
refuses 1 'BEGIN CERTIFICATE' --tls-cert "$work/empty" --tls-key "$work/empty"
"$zinc" help serve | grep -q 'zinc -m .* -p 8080' || miss "help serve does not tell the short form"

# ---- keys, headers, limits, metrics ----
printf 'sk-anna # Anna\nsk-ben\n' >"$work/keys"
auth=(-H 'Authorization: Bearer sk-ben')
if serve main --api-key-file "$work/keys" --cors https://chat.example.com --max-body 1 --slots 2; then
    has "$work/main.log" "serving zinc-demo at $url/v1: 2 slots"
    refuses 1 'is in use' --port "${url##*:}"
    answers 200 /health
    has "$work/body" '"status":"ok"'
    answers 200 / # the page
    has "$work/head" '^content-security-policy: default-src'
    has "$work/head" '^content-type: text/html'
    answers 200 /favicon.ico
    answers 200 /openapi.json
    has "$work/head" '^content-type: application/json'
    cmp -s "$work/body" share/openapi.json || miss "/openapi.json is not share/openapi.json"
    answers 200 / -I
    [ -s "$work/body" ] && grep -q '<html' "$work/body" && miss "HEAD has a body"
    answers 401 /v1/models
    has "$work/head" '^www-authenticate: Bearer'
    has "$work/body" '"error"'
    answers 401 /metrics
    answers 401 /v1/models -H 'Authorization: Bearer sk-wrong-key'
    answers 200 /v1/models "${auth[@]}" -H 'X-Request-Id: my-own.id/7'
    has "$work/head" '^x-request-id: my-own.id/7'
    has "$work/head" '^access-control-allow-origin: https://chat.example.com'
    answers 200 /v1/models "${auth[@]}" -H 'X-Request-Id: two words "and quotes"'
    grep -qi '^x-request-id: two' "$work/head" && miss "an id with blanks came back"
    answers 204 /v1/chat/completions -X OPTIONS -H 'Origin: https://chat.example.com' \
        -H 'Access-Control-Request-Method: POST' -H 'Access-Control-Request-Headers: authorization,x-stainless-os'
    has "$work/head" '^access-control-allow-headers: authorization,x-stainless-os'
    answers 405 /v1/chat/completions "${auth[@]}"
    has "$work/head" '^allow: POST'
    answers 404 /v1/nothing "${auth[@]}"
    answers 404 /../../etc/passwd "${auth[@]}" --path-as-is
    head -c 1500000 /dev/zero | tr '\0' ' ' >"$work/big"
    answers 413 /v1/chat/completions "${auth[@]}" --data-binary @"$work/big"
    answers 413 /v1/chat/completions "${auth[@]}" --data-binary @"$work/big" -H 'Transfer-Encoding: chunked'
    answers 415 /v1/chat/completions "${auth[@]}" -d '{}' -H 'Content-Encoding: gzip'
    answers 400 /v1/chat/completions "${auth[@]}" -d '{'
    answers 200 /v1/chat/completions "${auth[@]}" -d "$(chat 8)"
    answers 200 /v1/chat/completions "${auth[@]}" -N -d "$(chat 8 ',"stream":true')"
    has "$work/head" '^content-type: text/event-stream'
    has "$work/head" '^x-accel-buffering: no'
    has "$work/body" '^data: \[DONE\]'
    answers 200 /metrics "${auth[@]}"
    has "$work/body" '^zinc_http_requests_total{path="/v1/chat/completions",status="200"} 2$'
    has "$work/body" '^zinc_http_requests_total{path="/v1/chat/completions",status="413"} 2$'
    has "$work/body" '^zinc_generated_tokens_total 16$'
    has "$work/body" '^zinc_slots 2$'
    # clients that leave are noticed, and their slots become free
    for i in 1 2 3; do
        curl -sN --max-time 600 "${auth[@]}" -d "$(chat 7000 ',"stream":true')" "$url/v1/chat/completions" >"$work/left.$i" &
        eval "left$i=$!"
    done
    comes_to 2 zinc_requests_running
    kill $left1 $left2 $left3
    wait $left1 $left2 $left3 2>/dev/null
    comes_to 0 zinc_requests_running
    comes_to 0 zinc_requests_waiting
    comes_to 3 zinc_http_cut_total
    kill -TERM $pid
    ends $pid 0 "SIGTERM when idle"
    has "$work/main.log" ' id=my-own.id/7 client=127.0.0.1:[0-9]* method=GET path=/v1/models status=200 ms='
    has "$work/main.log" ' status=200 ms=.* prompt=[0-9]* reused=[0-9]* generated=8 tps=.* reason=length$'
    has "$work/main.log" 'reason=disconnected$'
    has "$work/main.log" 'status=401 .*reason=invalid_api_key$'
    grep -q 'sk-' "$work/main.log" && miss "a key is in the log"
    [ -f "$work/main.ready" ] && miss "the ready file stays behind"
else
    miss "serve: $(cat "$work/main.log")"
fi
auth=()

# ---- addresses ----
if serve unix --host "unix:$work/socket" --no-page --no-metrics -q; then
    [ "$url" = "unix:$work/socket" ] || miss "the url of a socket is $url"
    url=http://localhost
    answers 200 /v1/models --unix-socket "$work/socket"
    answers 404 / --unix-socket "$work/socket"
    answers 404 /metrics --unix-socket "$work/socket"
    kill -9 $pid # leaves its socket behind: the next one takes its place
    wait $pid 2>/dev/null
    serve unix2 --host "unix:$work/socket" -q || miss "a stale socket: $(cat "$work/unix2.log")"
    kill -INT $pid
    ends $pid 0 "SIGINT when idle"
    [ -e "$work/socket" ] && miss "the socket stays behind"
    [ -s "$work/unix2.log" ] && miss "--quiet says: $(cat "$work/unix2.log")"
else
    miss "serve on a unix socket: $(cat "$work/unix.log")"
fi
if grep -q 00000000000000000000000000000001 /proc/net/if_inet6 2>/dev/null; then
    serve v6 --host ::1 || miss "serve on ::1: $(cat "$work/v6.log")"
    case $url in 'http://[::1]:'*) answers 200 /health -g ;; *) miss "the url on ::1 is $url" ;; esac
    kill -TERM $pid
    ends $pid 0 "serve on ::1"
fi
serve all --host 0.0.0.0 || miss "serve on 0.0.0.0: $(cat "$work/all.log")"
has "$work/all.log" 'warning: whoever can reach .* can use the model'
kill -TERM $pid
ends $pid 0 "serve on 0.0.0.0"

# options without a command: -p with a number is a port, but not beside what only run has
"$zinc" -m "$model" -p 1 --host 203.0.113.9 >"$work/out" 2>"$work/err" && miss "-p 1 did not mean serve"
has "$work/err" 'no interface'
"$zinc" -m "$model" -p 8080 -n 1 --tier cpu >"$work/out" 2>"$work/err" || miss "-p 8080 -n 1 did not mean run"
"$zinc" -m "$model" -p 'a 8080' -q --tier cpu >"$work/out" 2>"$work/err" || miss "-p TEXT did not mean run"

# ---- TLS ----
if command -v openssl >/dev/null; then
    for i in 1 2; do
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost \
            -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$work/key$i.pem" -out "$work/cert$i.pem" \
            >/dev/null 2>&1
    done
    refuses 1 'is the key the certificate' --tls-cert "$work/cert1.pem" --tls-key "$work/key2.pem" --port 0
    if serve tls --tls-cert "$work/cert1.pem" --tls-key "$work/key1.pem"; then
        case $url in https://127.0.0.1:*) ;; *) miss "the url with TLS is $url" ;; esac
        answers 200 /health --cacert "$work/cert1.pem"
        answers 200 /v1/chat/completions --cacert "$work/cert1.pem" "${json[@]}" -N -d "$(chat 8 ',"stream":true')"
        has "$work/body" '^data: \[DONE\]'
        curl -s --max-time 20 "http://${url#https://}/health" >/dev/null && miss "plain HTTP on a TLS port was answered"
        answers 200 /health --cacert "$work/cert1.pem"
        kill -TERM $pid
        ends $pid 0 "SIGTERM with TLS"
    else
        miss "serve with TLS: $(cat "$work/tls.log")"
    fi
fi

# ---- few open files ----
# Connections that do nothing take them all: a new one gets its answer all the same.
bare=$zinc
printf '#!/bin/sh\nulimit -n 64\nexec "%s" "$@"\n' "$bare" >"$work/few-files" && chmod +x "$work/few-files"
zinc=$work/few-files
if serve few; then
    has "$work/few.log" '64 open files allowed, .*: 32 connections at most'
    idle=
    for i in $(seq 100); do
        exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}" || break
        idle="$idle $fd"
    done
    answers 200 /v1/chat/completions --max-time 10 "${json[@]}" -d "$(chat 2)"
    for fd in $idle; do exec {fd}>&-; done
    kill -TERM $pid
    ends $pid 0 "serve with few open files"
else
    miss "serve with few open files: $(cat "$work/few.log")"
fi
zinc=$bare

# ---- the end ----
# A stream goes on to its end while nobody new is let in: a longer one where it had ended before that could be seen.
for n in 1000 7900; do
    serve drain --drain $patience || miss "serve: $(cat "$work/drain.log")"
    curl -sN "${json[@]}" -d "$(chat $n ',"stream":true')" "$url/v1/chat/completions" >"$work/drained" &
    client=$!
    await eval 'grep -q "^data: " "$work/drained"' || miss "no stream"
    kill -TERM $pid
    await refuses_connections || miss "new connections while draining"
    kill -0 $client 2>/dev/null && break
done
kill -0 $client 2>/dev/null || miss "the stream had ended before connections were refused"
ends $client 0 "a stream while draining"
has "$work/drained" '"finish_reason":"length"'
has "$work/drained" '^data: \[DONE\]'
grep -q '"error"' "$work/drained" && miss "an error in a stream that had time: $(tail -c 200 "$work/drained")"
ends $pid 0 "draining"

# What does not end in time is cut, and told so.
serve cut --drain 1 || miss "serve: $(cat "$work/cut.log")"
curl -sN "${json[@]}" -d "$(chat 7900 ',"stream":true')" "$url/v1/chat/completions" >"$work/cutoff" &
client=$!
comes_to 1 zinc_requests_running
kill -TERM $pid
ends $pid 0 "draining with --drain 1"
ends $client 0 "the client of a stream that was cut"
has "$work/cutoff" '"code":"shutting_down"'
grep -q '"finish_reason":"[a-z]' "$work/cutoff" && miss "7900 tokens in a second?"
has "$work/cut.log" 'drained: 1 requests ended early'

serve twice --drain $patience || miss "serve: $(cat "$work/twice.log")"
curl -sN "${json[@]}" -d "$(chat 7900 ',"stream":true')" "$url/v1/chat/completions" >"$work/twice" &
client=$!
comes_to 1 zinc_requests_running
kill -TERM $pid
await refuses_connections || miss "new connections after a signal"
kill -TERM $pid
ends $pid 130 "a second signal"
wait $client
finish
