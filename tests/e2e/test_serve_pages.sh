#!/usr/bin/env bash
# Web pages and a server without keys: what curl can send in their place, then Chromium with a page of another origin and
# a page whose name was pointed at 127.0.0.1.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
chat='{"messages":[{"role":"user","content":"x"}],"max_tokens":1}'
json='Content-Type: application/json' browser='Sec-Fetch-Site: same-origin'

# ask STATUS PATH [curl options]: the body in $work/body
ask()
{
    local want=$1 path=$2 got
    shift 2
    got=$(curl -s --max-time 600 -D "$work/head" -o "$work/body" -w '%{http_code}' "$@" "$url$path")
    [ "$got" = "$want" ] || miss "$name: $* $path: $got instead of $want: $(head -c 200 "$work/body")"
    [ "$got" -lt 400 ] || grep -q '"error":{"message":"' "$work/body" || miss "$name: $* $path: no error of our form"
}

name=local
serve local -m $model --tier null --slots 1 --ctx 512 --quiet || finish
port=${url##*:}
for host in "localhost:$port" "LOCALHOST" 127.0.0.1 "[::1]:$port" "chat.localhost" 127.8.8.8; do
    ask 200 /v1/models -H "Host: $host"
done
for host in "evil.example:$port" evil.example "127.0.0.1.evil.example:$port" 192.168.1.5 "localhost.evil.example"; do
    for path in /v1/models /metrics /health / /nothing; do
        ask 403 $path -H "Host: $host"
    done
    ask 403 /v1/chat/completions -H "Host: $host" -H "$json" -d "$chat"
done
for origin in https://evil.example null "http://127.0.0.1:1" "https://localhost:$port.evil.example"; do
    for path in /v1/models /metrics /health; do
        ask 403 $path -H "Origin: $origin"
        grep -qi '^access-control' "$work/head" && miss "$path: CORS for $origin"
    done
    ask 403 /v1/chat/completions -H "Origin: $origin" -H "$json" -d "$chat"
    ask 403 /v1/chat/completions -H "Origin: $origin" -H 'Content-Type: text/plain' -d "$chat"
    ask 403 /v1/chat/completions -H "Origin: $origin" -X OPTIONS -H 'Access-Control-Request-Method: POST'
done
for type in text/plain application/x-www-form-urlencoded 'multipart/form-data; boundary=x' 'text/plain; application/json'; do
    ask 415 /v1/chat/completions -H "Content-Type: $type" -d "$chat"
done
ask 200 /v1/chat/completions -H "$json" -d "$chat"
ask 200 /v1/chat/completions -H 'Content-Type: application/json; charset=utf-8' -d "$chat"
ask 200 /v1/chat/completions -H 'Content-Type:' -d "$chat" # a program that does not say
ask 415 /v1/chat/completions -H 'Content-Type:' -H "$browser" -d "$chat"
ask 415 /v1/chat/completions -H 'Content-Type:' -H "Origin: $url" -d "$chat"
ask 200 /v1/chat/completions -H "$json" -H "$browser" -H "Origin: $url" -d "$chat" # the chat page
[ "$(metric zinc_generated_tokens_total "$url")" = 4 ] || miss "tokens were generated for pages"
. tests/clients/locate.sh
if [ -z "$slow_build" ] && [ -x "${CHROMIUM:-/usr/bin/chromium}" ] && client_locate playwright-core; then
    timeout 1200 node tests/clients/foreign.mjs "$url" || miss "Chromium: exit $?"
    [ "$(metric zinc_generated_tokens_total "$url")" = 5 ] || miss "tokens were generated for pages in Chromium"
else
    echo "without Chromium: only the headers were tried"
fi
serve_end local $pid

name=named
serve named -m $model --tier null --ctx 512 --allow-host chat.example.com --allow-host gpu --cors https://a.example --quiet || finish
ask 200 /v1/models -H 'Host: chat.example.com'
ask 200 /v1/models -H 'Host: GPU:8080'
ask 200 /v1/chat/completions -H 'Host: chat.example.com' -H 'Origin: https://chat.example.com' -H "$json" -d "$chat"
ask 403 /v1/models -H 'Host: evil.example'
ask 200 /v1/chat/completions -H 'Origin: https://a.example' -H "$json" -d "$chat"
ask 415 /v1/chat/completions -H 'Origin: https://a.example' -H 'Content-Type: text/plain' -d "$chat"
ask 204 /v1/chat/completions -H 'Origin: https://a.example' -X OPTIONS -H 'Access-Control-Request-Method: POST'
ask 403 /v1/models -H 'Origin: https://b.example'
serve_end named $pid

name=open
serve open -m $model --tier null --ctx 512 --host 0.0.0.0 --quiet || finish
url=http://127.0.0.1:${url##*:}
ask 200 /v1/models -H 'Host: 192.168.1.5:8080'
ask 200 /v1/models -H 'Host: [2001:db8::1]'
ask 403 /v1/models -H 'Host: evil.example'
ask 403 /v1/models -H 'Origin: https://evil.example'
serve_end open $pid

name=keys key=page-key
serve keys -m $model --tier null --ctx 512 --api-key $key --quiet || finish
auth=(-H "Authorization: Bearer $key")
ask 401 /v1/models -H 'Host: evil.example'
ask 200 /v1/models "${auth[@]}" -H 'Host: evil.example' -H 'Origin: https://evil.example'
grep -qi '^access-control' "$work/head" && miss "CORS that nobody asked for"
ask 200 /v1/chat/completions "${auth[@]}" -H 'Content-Type: text/plain' -d "$chat"
serve_end keys $pid
finish
