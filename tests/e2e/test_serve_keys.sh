#!/usr/bin/env bash
# Clients that do not trust each other: what one key sent is not reused for another, and one that ignores its refusals
# keeps nobody out.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"

# answer KEY [max_tokens]: the same chat by this key; its body in $work/body, its status in $status
answer()
{
    status=$(curl -s --max-time $patience -o "$work/body" -w '%{http_code}' -H "Authorization: Bearer $1" "$url/v1/chat/completions" \
        -d '{"messages":[{"role":"system","content":"The code word of this house is heliotrope, and nobody else may know it at all."},
             {"role":"user","content":"Hello!"}],"temperature":0,"max_tokens":'"${2:-4}"'}')
}
# cached KEY WANT: tokens that were reused, "some" or 0
cached()
{
    answer "$1"
    local n
    n=$(grep -oE '"cached_tokens": ?[0-9]+' "$work/body" | grep -oE '[0-9]+$')
    case $2:$n in
    some:0 | *:) miss "$what: $1 reused ${n:-?} tokens, some were expected: $(head -c 200 "$work/body")" ;;
    0:0 | some:*) ;;
    *) miss "$what: $1 reused $n tokens of another key's prompt" ;;
    esac
}

# ---- what others asked ----
what="apart"
serve apart -m $model --tier cpu --ctx 1024 --slots 2 --api-key anna --api-key ben --quiet || finish
cached anna 0
cached anna some
cached ben 0
cached ben some
cached anna some
serve_end apart $pid
what="shared"
serve shared -m $model --tier cpu --ctx 1024 --slots 2 --api-key anna --api-key ben --share-cache --quiet || finish
cached anna 0
cached ben some
serve_end shared $pid

# ---- a place in the queue ----
what="turns"
serve turns -m $model --tier cpu --ctx 1024 --slots 1 --queue 2 --api-key greedy --api-key ben --quiet || finish
touch "$work/go"
for i in 1 2 3 4 5 6 7 8; do
    while [ -e "$work/go" ]; do
        curl -s --max-time $patience -o /dev/null -w '%{http_code}\n' -H 'Authorization: Bearer greedy' "$url/v1/chat/completions" \
            -d '{"messages":[{"role":"user","content":"Hello!"}],"ignore_eos":true,"max_tokens":24}' >>"$work/greedy.$i"
    done &
    workers="${workers:-} $!"
done
await eval 'cat "$work"/greedy.* | grep -q 429' # the queue is full
for i in 1 2 3 4 5 6; do
    answer ben 4
    [ "$status" = 200 ] || miss "$what: request $i of the modest key: status $status: $(head -c 200 "$work/body")"
done
rm "$work/go"
wait $workers
cat "$work"/greedy.* | sort | uniq -c | sed 's/^/  greedy: /'
cat "$work"/greedy.* | grep -q 429 || miss "$what: the greedy key was never refused"
cat "$work"/greedy.* | grep -q 200 || miss "$what: the greedy key was never served"
serve_end turns $pid
finish
