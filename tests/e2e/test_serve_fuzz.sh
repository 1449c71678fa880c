#!/usr/bin/env bash
# 10,000 malformed requests: each is answered 4xx or closed (or was still valid), none with 5xx, none hangs, and the server
# goes on.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
[ -x "$loadgen" ] || skip "no $loadgen: make first"
n=10000
[ -n "$slow_build" ] && n=1000
model=models/zinc-demo.gguf
[ -e $model ] || { make_model qwen35 Q8_0 "$work/m.gguf" && model=$work/m.gguf; }
key=fuzz-key
serve fuzz -m $model --tier null --slots 8 --queue 64 --api-key $key --max-body 1 --cors '*' --quiet || finish
"$loadgen" --fuzz $n -c 48 --key $key "$url" >"$work/report" 2>"$work/wrong" ||
    miss "exit $?: $(head -n 10 "$work/wrong")"
cat "$work/report"
answered=$(awk '/rejected|closed/ { n += $2 } END { print n + 0 }' "$work/report")
[ "$answered" -gt $((n / 3)) ] || miss "only $answered of $n were rejected: the fuzzer does not do its work"
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/health")" = 200 ] || miss "not alive"
all_quiet fuzz "$url"
serve_end fuzz $pid
finish
