#!/usr/bin/env bash
# Two replicas behind nginx and behind HAProxy, with the configurations of doc/replicas.md as they are printed there, and with
# that of the gateway in share/kubernetes, its names of replicas replaced by their addresses: conversations stay where they began, streams are not held back, and a replica that leaves is not missed.
. tests/e2e/lib.sh
model=models/zinc-demo.gguf
[ -f "$model" ] || skip "no $model"
command -v curl >/dev/null || skip "no curl"
PATH=$PATH:/usr/sbin
nginx=$(command -v nginx) haproxy=$(command -v haproxy)
[ -n "$nginx$haproxy" ] || skip "neither nginx nor haproxy is installed (apt-get install nginx-light haproxy)"
running=
trap 'kill -9 $running 2>/dev/null; rm -rf "$work"' EXIT

replica() # NAME PORT
{
    rm -f "$work/$1.ready"
    "$zinc" serve -m "$model" --tier cpu --port "$2" --slots 4 --ctx 4096 --no-page --ready-file "$work/$1.ready" 2>"$work/$1.log" &
    running="$running $!"
    eval "$1=$!"
    local ready=$work/$1.ready p=${!1}
    await eval '[ -f "$ready" ] || ended $p'
    [ -f "$ready" ] || { cat "$work/$1.log"; miss "replica $1"; finish; }
    eval "url_$1=$(cat "$work/$1.ready")"
}
# block LANGUAGE: the doc's, with the ports of this test
block()
{
    awk -v want="\`\`\`$1" '$0 == want { on = 1; next } /^```/ { on = 0 } on' doc/replicas.md |
        sed "s/:8081/:${url_one##*:}/; s/:8082/:${url_two##*:}/; s/:8080/:$port/"
}
# The gateway's, which has its probe for Kubernetes as well.
gateway()
{
    sed -n '/^  haproxy.cfg: |/,/^---/{/^    /s/^    //p}' share/kubernetes/gateway.yaml | sed -E "
        s|^(    server zinc-0) .*|\1 127.0.0.1:${url_one##*:}|; s|^(    server zinc-1) .*|\1 127.0.0.1:${url_two##*:}|
        /^    server zinc-[2-9]/d; s|bind :8080|bind 127.0.0.1:$port|; s| resolvers cluster init-addr none||"
}
# A port that nobody listens on, and of those that the kernel gives to nobody by itself: a replica comes back at its own, which
# a client's connection would have taken meanwhile.
free_port()
{
    local p
    for p in $(shuf -i 20000-32000 -n 50); do
        (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || { echo "$p"; return; }
    done
}
forwards() { [ "$(curl -s --max-time 5 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/health")" = 200 ]; }
up() # the proxy forwards
{
    await eval 'ended $proxy || forwards'
    forwards && return
    miss "$1 does not forward: $(tail -n 3 "$work/$1.log")"
    return 1
}
# ask BODY [curl options]: the replica that answered; nothing when it was not 200
ask()
{
    local body=$1
    shift
    curl -s --max-time $patience -o "$work/body" -D "$work/head" "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' "$@" -d "$body"
    grep -q '^HTTP/[0-9.]* 200' "$work/head" && sed -n 's/^x-replica: *\([^\r]*\).*/\1/Ip' "$work/head"
}
# turn N K: the body of conversation N at its K-th question
turn()
{
    local i more=
    for i in $(seq 2 "$2"); do
        more="$more,{\"role\":\"assistant\",\"content\":\"Answer $i.\"},{\"role\":\"user\",\"content\":\"And \\\"$i\\\"?\"}"
    done
    printf '{"model":"m","max_tokens":2,"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"I say \\"%s\\"."}%s]}' \
        "number $(($1 * 7919))" "$more"
}
stat_of() # URL METRIC
{
    curl -s --max-time $patience "$1/metrics" | sed -n "s/^$2 //p"
}

check() # NAME: of the proxy that listens at $port
{
    local i k first then all= places=0
    # Six conversations, and more until both replicas have some: nginx hashes their addresses, which are others in each run.
    for ((i = 1; i <= 6 || (places < 2 && i <= 200); i++)); do
        first=$(ask "$(turn $i 1)")
        all="$all $first"
        places=$(echo $all | tr ' ' '\n' | sort -u | wc -l)
        for k in 2 3; do
            then=$(ask "$(turn $i $k)")
            [ -n "$first" ] && [ "$then" = "$first" ] ||
                miss "$1: conversation $i began at '$first', question $k went to '$then': $(head -c 200 "$work/body")"
        done
    done
    [ $places -eq 2 ] || miss "$1: $((i - 1)) conversations went to $(echo $all | tr ' ' '\n' | sort -u)"
    first=$(ask "$(turn 1 1)" -H 'X-Session-Affinity: anna')
    for i in 2 3 4 5 6; do
        then=$(ask "$(turn $i 1)" -H 'X-Session-Affinity: anna')
        [ "$then" = "$first" ] || miss "$1: X-Session-Affinity went to '$first' and '$then'"
    done
    # a stream comes while it is made, and a client that leaves is noticed behind the proxy
    rm -f "$work/stream"
    curl -sN --max-time $patience "http://127.0.0.1:$port/v1/chat/completions" -H 'Content-Type: application/json' -d \
        '{"stream":true,"ignore_eos":true,"max_tokens":3900,"messages":[{"role":"user","content":"Tell me a story."}]}' >"$work/stream" &
    local client=$!
    await test -s "$work/stream" || miss "$1: no piece of a stream"
    kill $client
    wait $client 2>/dev/null
    grep -q '\[DONE\]' "$work/stream" && miss "$1: the stream was complete before its first piece came"
    await eval '[ "$(stat_of "$url_one" zinc_requests_running)$(stat_of "$url_two" zinc_requests_running)" = 00 ]' ||
        miss "$1: the client left, its request runs on"
}
# The first replica drains: nothing fails, all goes to the other one; then it comes back at its port.
leave()
{
    local i
    kill -TERM "$one"
    for i in 1 2 3 4 5 6; do
        [ -n "$(ask "$(turn $i 2)")" ] || miss "$1: with one replica gone: $(head -n 1 "$work/head")"
    done
    wait "$one"
    local rc=$?
    [ $rc -eq 0 ] || miss "$1: the replica that left: exit $rc"
    replica one "${url_one##*:}"
}

replica one "$(free_port)"
replica two "$(free_port)"
if [ -n "$nginx" ]; then
    port=$(free_port)
    mkdir -p "$work/nginx"
    {
        echo "daemon off; master_process off; worker_processes 1; pid $work/nginx/pid; error_log stderr; events { }"
        echo "http { access_log off; client_body_temp_path $work/nginx/body; proxy_temp_path $work/nginx/proxy;"
        echo "fastcgi_temp_path $work/nginx/f; uwsgi_temp_path $work/nginx/u; scgi_temp_path $work/nginx/s;"
        block nginx
        echo "}"
    } >"$work/nginx.conf"
    "$nginx" -p "$work/nginx" -e stderr -c "$work/nginx.conf" 2>"$work/nginx.log" &
    proxy=$!
    running="$running $proxy"
    up nginx && check nginx && leave nginx
    kill $proxy
    wait $proxy 2>/dev/null
fi
if [ -n "$haproxy" ]; then
    port=$(free_port)
    block haproxy >"$work/haproxy.conf"
    "$haproxy" -db -f "$work/haproxy.conf" >"$work/haproxy.log" 2>&1 &
    proxy=$!
    running="$running $proxy"
    up haproxy && check haproxy && leave haproxy
    kill $proxy
    wait $proxy 2>/dev/null
    port=$(free_port)
    sed -n '/^  haproxy.cfg: |/,/^---/{/^    /s/^    //p}' share/kubernetes/gateway.yaml >"$work/whole.conf"
    NAMESPACE=zinc "$haproxy" -c -f "$work/whole.conf" >"$work/gateway.log" 2>&1 || miss "gateway: $(tail -n 3 "$work/gateway.log")"
    gateway >"$work/gateway.conf"
    "$haproxy" -db -f "$work/gateway.conf" >"$work/gateway.log" 2>&1 &
    proxy=$!
    running="$running $proxy"
    if up gateway; then
        check gateway
        [ "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/gateway-ready")" = 200 ] || miss "gateway: its probe"
    fi
    kill $proxy
    wait $proxy 2>/dev/null
fi
for r in one two; do
    kill -TERM "${!r}"
    wait "${!r}" || miss "replica $r: exit $?"
done
finish
