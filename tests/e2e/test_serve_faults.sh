#!/usr/bin/env bash
# A whole server whose calls of the system fail now and then, while clients ask: it does not crash or hang, answers are whole
# and right or the connection breaks, and when the calls work again so does everything; SIGTERM ends it with 0. Each call in
# each way, one at a time, and the start and the end: tests/unit/test_http_faults.c.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
[ -x "$loadgen" ] || skip "no $loadgen: make first"
command -v curl >/dev/null || skip "curl is not installed"
case $build in */sanitize | */thread | */fuzz) skip "sanitizers stand where the preloaded library would" ;; esac
${CC:-gcc} -O1 -g -Wall -shared -fPIC -o "$work/faulty.so" tests/e2e/faulty_libc.c -ldl 2>"$work/log" ||
    skip "no preloadable library: $(head -n 1 "$work/log")"
make_model qwen3 Q8_0 "$work/m.gguf" || finish
export ZINC_NULL_HISTORY=1
common="-m $work/m.gguf --tier null --ctx 1024 --slots 4 --queue 64 --idle 5 --quiet"
mix="--distinct 40 --forms 40 --tokens 16 --prefix-words 40"
serve alone $common --cache-mib 0 || finish
"$loadgen" $mix --solo "$work/expected" "$url" >"$work/report" 2>&1 || miss "alone: $(tail -n 3 "$work/report")"
serve_end alone $pid

# faults NAME CALL:ERROR:EVERY: a server under them
faults()
{
    local name=$1 plan=$2 wrong
    rm -f "$work/on"
    export LD_PRELOAD=$work/faulty.so FAULTY=$plan FAULTY_ON=$work/on
    serve "$name" $common --cache-mib 4
    local rc=$?
    unset LD_PRELOAD FAULTY FAULTY_ON
    [ $rc -eq 0 ] || return
    : >"$work/on"
    # Connections may break here, and 429, 503 are answers too; another text, a hang or nonsense are not.
    timeout $patience "$loadgen" $mix -n 80 -c 8 --drop 10 --bad 5 --verify "$work/expected" "$url" >"$work/report" 2>"$work/wrong"
    [ $? -ne 124 ] || miss "$plan: loadgen does not end"
    wrong=$(grep -E '^  (different|hangs|unexpected) ' "$work/report" | tr '\n' ' ')
    [ -z "$wrong" ] || miss "$plan: $wrong: $(head -n 2 "$work/wrong")"
    rm -f "$work/on"
    "$loadgen" $mix -n 20 -c 4 --verify "$work/expected" "$url" >"$work/report" 2>"$work/wrong" ||
        miss "$plan: afterwards: $(head -n 2 "$work/wrong")"
    all_quiet "$plan" "$url"
    serve_end "$name" $pid
    grep -q '^faulty: .* failed [1-9]' "$work/$name.log" || miss "$plan: nothing failed: $(tail -n 1 "$work/$name.log")"
    sed -n 's/^faulty: /  '"$plan"': /p' "$work/$name.log"
}
n=0
for plan in recv:EINTR:3 recv:EAGAIN:3 recv:ECONNRESET:11 recv:ENOMEM:13 recv:SHORT:2 accept4:EMFILE:3 \
    accept4:ECONNABORTED:2 accept4:ENOMEM:5 accept4:EINTR:2 epoll_wait:EINTR:3 epoll_wait:SHORT:1 epoll_ctl:ENOMEM:17 \
    setsockopt:ENOBUFS:2 getpeername:ENOTCONN:2 close:EIO:2 getrandom:EAGAIN:2 write:EINTR:5 read:EINTR:3 send:EINTR:3 send:EAGAIN:3 send:SHORT:2 send:EPIPE:9; do
    n=$((n + 1))
    faults "f$n" $plan
done
finish
