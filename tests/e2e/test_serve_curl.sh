#!/usr/bin/env bash
# Every endpoint by curl: streams, keys, browsers' preflights, TLS, unix sockets, IPv6, an end while a stream runs.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
key=curl-key
hello='"messages":[{"role":"user","content":"Hello! How are you?"}],"enable_thinking":false,"temperature":0,"max_tokens":24'

# ask STATUS PATH [curl options]: a request; head in $work/head, body in $work/body. A miss when the status is another one
ask()
{
    local want=$1 path=$2 got
    shift 2
    got=$(curl -s --max-time $patience -D "$work/head" -o "$work/body" -w '%{http_code}' -H "Authorization: Bearer $key" "$@" "$url$path")
    what="$* $path"
    [ "$got" = "$want" ] || miss "$what: status $got instead of $want: $(head -c 200 "$work/body")"
    [ "$got" -lt 400 ] || grep -q '"error":{"message":"' "$work/body" || [ "${1:-}" = -I ] ||
        miss "$what: not an error of OpenAI's form: $(head -c 200 "$work/body")"
}
has() { grep -qiE -- "$1" "$work/body" || miss "$what: no $1 in $(head -c 300 "$work/body")"; }
header() { grep -qiE -- "^$1" "$work/head" || miss "$what: no header $1 in $(tr '\r\n' '  ' <"$work/head")"; }
# The pieces of a stream's text, or the text of an answer, put together
text() { grep -oE "\"(content|text)\":\"([^\"\\\\]|\\\\.)*\"" "$1" | sed -E 's/^"(content|text)":"//; s/"$//' | tr -d '\n'; }

serve curl -m $model --tier cpu --drain $patience --ctx 4096 --slots 2 --api-key $key --cors https://chat.example --max-body 1 --name demo || finish
http=$pid

# ---- endpoints ----
ask 200 /health && has '"status": ?"ok"'
ask 200 /health -H 'Authorization: nothing'
ask 200 /health -I
ask 200 / && has '<html' && header 'content-type: text/html' && header 'content-security-policy:'
ask 200 / -I
ask 200 /metrics && has '^zinc_requests_running 0' && header 'content-type: text/plain'
ask 200 /v1/models && has '"id": ?"demo"' && header 'content-type: application/json'
ask 200 /v1/models/demo && has '"object": ?"model"'
ask 404 /v1/models/other
ask 404 /nothing
ask 405 /v1/chat/completions && header 'allow:.*POST'
ask 405 /health -X DELETE && header 'allow:.*GET'
ask 400 /v1/embeddings -d '{"input":"hello"}' && has '"code": ?"unsupported"'
ask 200 /tokenize -d '{"content":"The old lamp"}' && has '"tokens": ?\['
ask 200 /v1/tokenize -d '{"content":"The old lamp","with_pieces":true}'
tokens=$(curl -s -H "Authorization: Bearer $key" -d '{"content":"The old lamp"}' "$url/tokenize")
ask 200 /detokenize -d "$tokens" && has '"content": ?"The old lamp"'

# ---- answers and streams ----
ask 200 /v1/chat/completions -d "{$hello}" && has '"finish_reason": ?"(stop|length)"' && has '"total_tokens"'
whole=$(text "$work/body")
[ -n "$whole" ] || miss "no text in $(head -c 300 "$work/body")"
ask 200 /v1/chat/completions -N -d "{$hello,\"stream\":true}" && header 'content-type: text/event-stream' && header 'cache-control: no-cache'
[ "$(text "$work/body")" = "$whole" ] || miss "the stream says '$(text "$work/body")' instead of '$whole'"
[ "$(tail -c 16 "$work/body" | tr -d '\n')" = 'data: [DONE]' ] || miss "the stream ends with $(tail -c 60 "$work/body")"
grep -Ev '^(data)?: ' "$work/body" | grep -q . && miss "lines that are not data: $(grep -Ev '^(data)?: ' "$work/body" | grep -m 1 .)"
# the role, text, the end and [DONE]; text that waits while others work goes out together
[ "$(grep -c '^data: ' "$work/body")" -ge 4 ] || miss "the stream has $(grep -c '^data: ' "$work/body") pieces"
ask 200 /v1/chat/completions -H 'Transfer-Encoding: chunked' -d "{$hello}"
[ "$(text "$work/body")" = "$whole" ] || miss "a chunked request is answered '$(text "$work/body")'"
ask 200 /v1/chat/completions -H 'Expect: 100-continue' -d "{$hello}"
ask 200 /v1/completions -d '{"prompt":"The old lamp","max_tokens":8,"temperature":0}' && has '"object": ?"text_completion"'
whole_text=$(text "$work/body")
ask 200 /v1/completions -N -d '{"prompt":"The old lamp","max_tokens":8,"temperature":0,"stream":true}'
[ "$(text "$work/body")" = "$whole_text" ] || miss "completions stream '$(text "$work/body")' instead of '$whole_text'"
n=$(curl -s -o /dev/null -o /dev/null -w '%{num_connects} ' -H "Authorization: Bearer $key" "$url/v1/models" "$url/v1/models")
[ "$n" = '1 0 ' ] || miss "the connection was not kept: $n"

# ---- errors, keys, ids, browsers ----
ask 400 /v1/chat/completions -d '{"messages":'
ask 400 /v1/chat/completions -d "{$hello,\"top_p\":7}" && has '"param": ?"top_p"'
head -c 1500000 /dev/zero | tr '\0' ' ' >"$work/big"
ask 413 /v1/chat/completions --data-binary "@$work/big"
ask 413 /v1/chat/completions -H 'Transfer-Encoding: chunked' --data-binary "@$work/big"
status=$(curl -s -D "$work/head" -o "$work/body" -w '%{http_code}' "$url/v1/models")
what="no key"
[ "$status" = 401 ] && header 'www-authenticate: Bearer' && has '"message"' || miss "without a key: $status"
[ "$(curl -s -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer wrong' "$url/v1/models")" = 401 ] || miss "a wrong key is taken"
grep -q $key "$work/curl.log" && miss "the key is in the log"
ask 200 /v1/models -H 'X-Request-Id: my-id-7' && header 'x-request-id: my-id-7'
grep -q 'my-id-7' "$work/curl.log" || miss "no log line with the request's id"
ask 200 /v1/models -H 'X-Request-Id: bad"id' && header 'x-request-id: '
grep -qi 'bad"id' "$work/head" && miss "an id that is not sane came back"
status=$(curl -s -X OPTIONS -D "$work/head" -o /dev/null -w '%{http_code}' -H 'Origin: https://chat.example' \
    -H 'Access-Control-Request-Method: POST' -H 'Access-Control-Request-Headers: authorization,content-type' "$url/v1/chat/completions")
what=preflight
case $status in 200 | 204) ;; *) miss "preflight: $status" ;; esac
header 'access-control-allow-origin: https://chat.example'
header 'access-control-allow-methods:.*POST'
header 'access-control-allow-headers:.*authorization'
ask 200 /v1/models -H 'Origin: https://chat.example' && header 'access-control-allow-origin: https://chat.example'

# ---- who leaves stops the server ----
all_quiet 'before leaving' "$url"
curl -sN -o "$work/part" -H "Authorization: Bearer $key" -d '{"prompt":"x","max_tokens":4000,"ignore_eos":true,"stream":true}' \
    "$url/v1/completions" &
part=$!
await grep -q '^data: ' "$work/part" || miss "nothing came before curl left"
kill $part
all_quiet 'after leaving' "$url"

# ---- a second one at the same port; the end while a stream runs ----
"$zinc" serve -m $model --tier null --port "${url##*:}" 2>"$work/second" && miss "two servers at one port"
grep -q "${url##*:}" "$work/second" || miss "an address in use is not told: $(tail -n 1 "$work/second")"
curl -sN -o "$work/last" -H "Authorization: Bearer $key" -d '{"prompt":"x","max_tokens":600,"ignore_eos":true,"stream":true}' \
    "$url/v1/completions" &
last=$!
await grep -q '^data: ' "$work/last" || miss "nothing came before the server was told to end"
serve_end curl $http
wait $last || miss "the stream was cut by SIGTERM: curl says $?"
grep -q '^data: \[DONE\]' "$work/last" || miss "SIGTERM did not wait for the stream: $(tail -c 100 "$work/last")"

# ---- other ways to listen; without a key ----
key=
serve unix -m $model --tier null --host "unix:$work/socket" --quiet &&
    { [ "$(curl -s --unix-socket "$work/socket" -o /dev/null -w '%{http_code}' http://x/health)" = 200 ] || miss "unix socket"; serve_end unix $pid; }
if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
    serve v6 -m $model --tier null --host ::1 --quiet && { ask 200 /health -g; serve_end v6 $pid; }
fi
if command -v openssl >/dev/null; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1,DNS:localhost \
        -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null || miss "openssl makes no certificate"
    serve tls -m $model --tier null --tls-cert "$work/cert.pem" --tls-key "$work/key.pem" --quiet && {
        case $url in https://*) ;; *) miss "TLS: the URL is $url" ;; esac
        ask 200 /v1/models --cacert "$work/cert.pem" && has '"object"'
        ask 200 /v1/completions --cacert "$work/cert.pem" -H 'Content-Type: application/json' -N -d '{"prompt":"x","max_tokens":8,"stream":true}' && has 'data: \[DONE\]'
        curl -s -o /dev/null "$url/health" && miss "an unknown certificate is trusted"
        curl -s -o "$work/body" --max-time 5 "http${url#https}/health" && miss "plain HTTP at a TLS port"
        serve_end tls $pid
    }
    "$zinc" serve -m $model --tier null --port 0 --tls-cert "$work/cert.pem" --tls-key "$work/missing.pem" 2>"$work/second" &&
        miss "TLS without a key"
    grep -q missing.pem "$work/second" || miss "a missing key is not told: $(tail -n 1 "$work/second")"
else
    echo "without openssl: TLS is not tried"
fi
finish
