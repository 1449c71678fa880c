#!/usr/bin/env bash
# Signs of life while long prompts are read, in each dialect that has streams: clients that wait for the second one see it
# before any text, and leave. The null tier reads them with a device's pace, a token in some 10 ms: the first prompt alone takes
# ten times as long as two signs, however quick a machine is or busy.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
command -v curl >/dev/null || skip "curl is not installed"
ZINC_NULL_GBS=1 serve signs -m $model --tier null --chunk 1 --ctx 8192 --slots 6 --cache-mib 0 || finish

text=$(for ((i = 0; i < 1100; i++)); do printf ' %d words' $i; done)
chat="\"messages\":[{\"role\":\"user\",\"content\":\"WHO $text\"}],\"max_tokens\":4,\"stream\":true"

# NAME PATH BODY SIGN TEXT [N]: until the second line like SIGN after N (0) of them, without one like TEXT. A ping that only
# belongs to a beginning is none: it comes with message_start, and Ollama's streams begin with an object like those that follow.
client()
{
    local line n=0
    while read -r line; do
        if [[ $line =~ $5 ]]; then
            echo text
            break
        elif [[ $line =~ $4 ]] && [ $((++n)) -eq $((2 + ${6:-0})) ]; then
            echo "two signs"
            break
        fi
    done < <(exec curl -sN "$url$2" -H 'Content-Type: application/json' --data-binary "${3/WHO/$1}") >"$work/$1.got"
}
client chat /v1/chat/completions "{$chat}" '^: prompt [0-9]+/[0-9]+ tokens' '"content":"[^"]' &
client progress /v1/chat/completions "{$chat,\"return_progress\":true}" '"prompt_progress"' '"content":"[^"]' &
client messages /v1/messages "{$chat}" '^event: ping' '_delta' &
client responses /v1/responses "{\"input\":\"responses $text\",\"max_output_tokens\":4,\"stream\":true}" '^: prompt [0-9]+/[0-9]+ tokens' 'delta' &
ollama='"stream":true,"options":{"num_predict":4}'
client ollama_chat /api/chat "{\"messages\":[{\"role\":\"user\",\"content\":\"WHO $text\"}],$ollama}" \
    '"content":"".*"done":false' '"content":"[^"]|"done":true' 1 &
client ollama_generate /api/generate "{\"prompt\":\"WHO $text\",$ollama}" '"response":"".*"done":false' '"response":"[^"]|"done":true' 1 &
for name in chat progress messages responses ollama_chat ollama_generate; do
    await test -s "$work/$name.got" || miss "$name: no sign of life"
    [ "$(cat "$work/$name.got")" = "two signs" ] || miss "$name: $(cat "$work/$name.got") before the second sign"
done
all_quiet signs "$url"
serve_end signs $pid
finish
