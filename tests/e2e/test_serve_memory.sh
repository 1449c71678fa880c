#!/usr/bin/env bash
# Clients that ask for large answers and read none of them: the process stays small, the budget's counter within its limit,
# others are served, and when they leave nothing is held.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
[ -z "$slow_build" ] || skip "a sanitizer's memory is not the program's: see the release build's run"
json=(-H 'Content-Type: application/json')

serve memory -m $model --tier null --slots 1 --ctx 512 --quiet || finish
{
    printf '{"with_pieces":true,"content":"'
    head -c 3000000 /dev/zero | tr '\0' '~'
    printf '"}'
} >"$work/body"
before=$(metric zinc_resident_bytes "$url")
fds=
for _ in 1 2 3 4 5 6 7 8 9 10 11 12; do
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}" || miss "no connection"
    {
        printf 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %s\r\n\r\n' \
            "$(wc -c <"$work/body")"
        cat "$work/body"
    } >&$fd
    fds="$fds $fd"
done
await eval 'metric_is zinc_http_answering 13 "$url" && metric_is zinc_http_body_bytes 0 "$url"' || miss "not all were begun"
await metric_is_over zinc_request_memory_bytes 0 "$url"
sleep 0.3 # for what they may take on
after=$(metric zinc_resident_bytes "$url") held=$(metric zinc_request_memory_bytes "$url")
echo "resident $((before >> 20)) MiB, with 12 unread answers $((after >> 20)) MiB; the budget says $((${held:-0} >> 20)) MiB"
# 12 MB of ids each, and what the allocator keeps of the texts' tokenizing; whole answers have 110 MB each
[ $((after - before)) -lt 700000000 ] || miss "12 unread answers take $(((after - before) >> 20)) MiB"
[ "${held:-0}" -gt 0 ] && [ "$held" -lt 200000000 ] || miss "the budget's counter is ${held:-missing}"
[ "$(curl -s -o /dev/null -w '%{http_code}' "${json[@]}" -d '{"content":"a"}' "$url/tokenize")" = 200 ] || miss "others are not served"
for fd in $fds; do
    exec {fd}>&-
done
await metric_is zinc_request_memory_bytes 0 "$url" || miss "when all left $(metric zinc_request_memory_bytes "$url") bytes are held"
serve_end memory $pid

# A small budget: what never fits, and what does not fit now.
serve small -m $model --tier null --slots 1 --ctx 512 --max-memory 8 --max-body 16 --quiet || finish
ask() { curl -s -o "$work/answer" -D "$work/head" -w '%{http_code}' "${json[@]}" "$@"; }
[ "$(ask --data-binary "@$work/body" "$url/tokenize")" = 413 ] || miss "a request that never fits: $(head -c 200 "$work/answer")"
cat "$work/body" "$work/body" "$work/body" "$work/body" >"$work/huge"
[ "$(ask --data-binary "@$work/huge" "$url/tokenize")" = 413 ] || miss "a body that never fits: $(head -c 200 "$work/answer")"
fds=
for _ in 1 2 3; do
    exec {fd}<>"/dev/tcp/127.0.0.1/${url##*:}" || miss "no connection"
    {
        printf 'POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4000000\r\n\r\n'
        head -c 1900000 "$work/body"
    } >&$fd
    fds="$fds $fd"
done
await metric_is_over zinc_http_body_bytes 5000000 "$url" || miss "three parts of bodies are not held"
head -c 300000 "$work/body" >"$work/some"
printf '"}' >>"$work/some"
[ "$(ask --data-binary "@$work/some" "$url/tokenize")" = 429 ] || miss "no room now: $(head -n 1 "$work/head")"
grep -qi '^retry-after: [1-9]' "$work/head" || miss "429 without Retry-After"
for fd in $fds; do
    exec {fd}>&-
done
await metric_is zinc_request_memory_bytes 0 "$url" || miss "bodies that broke off are still held"
[ "$(metric zinc_request_memory_refused_total "$url")" -ge 2 ] || miss "refusals are not counted"
# A storm: bodies that break off, chunks that are none, clients that leave. All that was taken comes back.
"$loadgen" --fuzz 3000 -c 32 "$url" >"$work/storm" || miss "a storm: $(tail -n 3 "$work/storm")"
"$loadgen" -n 400 -c 32 --tokens 16 --drop 40 --slow 10 --bad 10 --distinct 40 "$url" >"$work/storm" 2>&1
grep -q ' 200: ' "$work/storm" || miss "nobody was served in a storm: $(cat "$work/storm")"
all_quiet 'after a storm' "$url"
# but for grammars, which are kept
await eval '[ "$(metric zinc_request_memory_bytes "$url")" = "$(metric zinc_request_memory_bytes_grammars "$url")" ]' ||
    miss "after a storm $(metric zinc_request_memory_bytes "$url") bytes are held"
serve_end small $pid
finish
