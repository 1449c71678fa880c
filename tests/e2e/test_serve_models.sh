#!/usr/bin/env bash
# zinc serve --models: each model in a process of its own, loaded when a request names it, ended when its place is needed and
# never while it answers; lists, streams, errors, keys, a process that is killed, one that cannot be loaded, the end.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
command -v curl >/dev/null || skip "curl is not installed"
command -v python3 >/dev/null || skip "python3 is not installed"
demo=models/zinc-demo.gguf
[ -e $demo ] || skip "no $demo"
mkdir "$work/models" "$work/run"
export TMPDIR=$work/run
unset XDG_RUNTIME_DIR
cp $demo "$work/models/alpha.gguf"
cp $demo "$work/models/beta.gguf"
"$mkmodel" tiny-qwen3 "$work/models/gamma.gguf" 2>/dev/null || miss "no model gamma"
echo "no model" >"$work/models/broken.gguf"

ask() # MODEL TOKENS [more of the body]: the answer's text, or its error
{
    curl -s $auth -H 'Content-Type: application/json' "$url/v1/chat/completions" \
        -d "{\"model\":\"$1\",\"max_tokens\":$2,\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"Hello!\"}]${3:-}}" |
        python3 -c 'import json,sys; t=sys.stdin.read(); a=json.loads(t or "{}"); print(a["choices"][0]["message"]["content"] if "choices" in a else a["error"]["code"] + ": " + a["error"]["message"] if t else "no answer")'
}
auth=
answers() # NAME WANTED: what stands in $got
{
    case $got in *"$2"*) ;; *) miss "$1: '$got', '$2' is expected" ;; esac
}
loaded() # the loaded models
{
    curl -s $auth "$url/v1/models" | python3 -c 'import json,sys; print(*[m["id"] for m in json.load(sys.stdin)["data"] if m["status"]["value"] == "loaded"])'
}
is_loaded() { [ "$(loaded)" = "$1" ]; }
post() { curl -s -o "$work/body" -w '%{http_code}' $auth -H 'Content-Type: application/json' "$url$1" -d "$2"; }
pid_of() { pgrep -f -- "--name=$1 .*$work/models" | head -n 1; }

# ---- a folder, one model at a time ----

serve folder --models "$work/models" --tier cpu --ctx 4096 --slots 2 --max-loaded 1 || finish
grep -q 'left out: .*broken.gguf' "$work/folder.log" || miss "broken.gguf is not told"
is_loaded "" || miss "loaded before anybody asked: $(loaded)"
alone=$("$zinc" run -m $demo --tier cpu --ctx 4096 --chat --prompt "Hello!" -n 12 --temp 0 2>/dev/null)
got=$(ask alpha 12)
[ -n "$alone" ] && answers "alpha" "${alone%%$'\n'*}"
is_loaded alpha || miss "loaded: $(loaded), alpha is expected"
got=$(ask beta:latest 4)
answers "beta" "Hello"
is_loaded beta || miss "loaded: $(loaded), beta is expected"
got=$(ask nope 4)
answers "an unknown model" "model_not_found: there is no model 'nope', this server has alpha, beta, gamma"
[ "$(post /v1/chat/completions '{"messages":[]}')" = 400 ] && grep -q "several: alpha, beta, gamma" "$work/body" || miss "no model: $(cat "$work/body")"
[ "$(post /v1/messages '{"model":"nope","max_tokens":1,"messages":[]}')" = 404 ] && grep -q '"type":"error"' "$work/body" ||
    miss "Anthropic's error: $(cat "$work/body")"
[ "$(post /v1/chat/completions '{"model":"beta","messages":"x"}')" = 400 ] || miss "the process's own error: $(cat "$work/body")"
[ "$(post /models/load '{"model":"gamma"}')" = 200 ] && is_loaded gamma || miss "load: $(cat "$work/body"), $(loaded)"
[ "$(post /models/unload '{"model":"gamma"}')" = 200 ] || miss "unload: $(cat "$work/body")"
await is_loaded "" || miss "after unloading: $(loaded)"
[ "$(post /api/show '{"model":"alpha"}')" = 200 ] && grep -q '"family":"qwen35moe"' "$work/body" || miss "show: $(cat "$work/body")"
grep -q '"capabilities":\["completion","tools"\]' "$work/body" || miss "what alpha can: $(cat "$work/body")"
is_loaded "" || miss "a model was loaded to be shown: $(loaded)"
curl -s "$url/api/tags" | grep -q '"name":"gamma"' || miss "no tags"
[ "$(curl -s -o "$work/body" -w '%{http_code}' "$url/v1/models/beta")" = 200 ] || miss "one model: $(cat "$work/body")"
[ "$(curl -s -o "$work/body" -w '%{http_code}' "$url/v1/models/nope")" = 404 ] || miss "a model that is not: $(cat "$work/body")"
[ "$(metric 'zinc_model_loads_total{model="alpha"}' "$url")" = 1 ] || miss "loads of alpha are not counted"

# Four clients of three models at once: all get what they get alone.
for m in alpha beta gamma; do
    ask $m 24 >"$work/alone.$m"
    ! grep -q '^no answer$' "$work/alone.$m" || miss "$m gives no answer"
done
clients=
for i in 1 2 3 4; do
    for m in alpha beta gamma; do
        ask $m 24 >"$work/at_once.$m.$i" &
        clients="$clients $!"
    done
done
wait $clients
all_serve
for i in 1 2 3 4; do
    for m in alpha beta gamma; do
        cmp -s "$work/alone.$m" "$work/at_once.$m.$i" || miss "$m among others: $(cat "$work/at_once.$m.$i")"
    done
done

# A stream is not ended for another model's sake; the other one waits for its place.
curl -sN -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"model":"alpha","prompt":"x","max_tokens":2000,"ignore_eos":true,"stream":true,"temperature":0}' >"$work/stream" &
client=$!
await test -s "$work/stream" || miss "no piece of a stream"
got=$(ask beta 4)
answers "beta, behind a stream" "Hello"
wait $client
grep -q '\[DONE\]' "$work/stream" || miss "the stream was cut: $(tail -c 200 "$work/stream")"

# A stream whose model has no place yet is told so, and then goes on, to its answer or to what is wrong with it.
rm -f "$work/stream"
curl -sN -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"model":"alpha","prompt":"x","max_tokens":2000,"ignore_eos":true,"stream":true}' >"$work/stream" &
client=$!
await test -s "$work/stream" || miss "no piece of a stream"
alpha=$(pid_of alpha)
kill -STOP "$alpha"
curl -sN -H 'Content-Type: application/json' "$url/v1/chat/completions" \
    -d '{"model":"beta","max_tokens":4,"stream":true,"messages":[{"role":"user","content":"Hello!"}]}' >"$work/waits" &
waits=$!
curl -sN -H 'Content-Type: application/json' "$url/v1/messages" \
    -d '{"model":"beta","max_tokens":4,"stream":true,"messages":7}' >"$work/wrong" &
wrong=$!
await grep -q '^: beta is waiting for a place' "$work/waits" || miss "no sign of life: $(cat "$work/waits")"
await grep -q '^: beta is waiting for a place' "$work/wrong" || miss "no sign of life: $(cat "$work/wrong")"
kill -CONT "$alpha"
wait $client $waits $wrong
grep -q 'Hello' "$work/waits" && grep -q '\[DONE\]' "$work/waits" || miss "a stream that waited: $(cat "$work/waits")"
grep -q '^event: error' "$work/wrong" && grep -q '"type":"invalid_request_error"' "$work/wrong" || miss "an error in a stream that waited: $(cat "$work/wrong")"

# A process that is killed: what it answers breaks off or is an error, and the next request finds it again.
ask beta 1 >/dev/null
curl -sN -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"model":"beta","prompt":"x","max_tokens":3900,"ignore_eos":true,"stream":true}' >"$work/stream" &
client=$!
await test -s "$work/stream" || miss "no piece of a stream"
kill -KILL "$(pid_of beta)"
wait $client
got=$(ask beta 4)
answers "beta, after it was killed" "Hello"

# A client that leaves is noticed by the model.
curl -sN -H 'Content-Type: application/json' "$url/v1/completions" \
    -d '{"model":"beta","prompt":"x","max_tokens":3900,"ignore_eos":true,"stream":true}' >"$work/gone" &
client=$!
await test -s "$work/gone" || miss "no piece of a stream"
kill $client
wait $client 2>/dev/null
await eval '[ "$(metric "zinc_model_requests_running{model=\"beta\"}" "$url")" = 0 ]' || miss "the client left, its request runs on"

# The model's own figures, by name.
curl -s "$url/metrics?model=beta" | grep -q '^zinc_slots_busy' || miss "no figures of beta"
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/metrics?model=nope")" = 404 ] || miss "figures of no model"
serve_end folder $pid
[ -z "$(pid_of alpha)$(pid_of beta)$(pid_of gamma)" ] || miss "a model's process is left"
[ -z "$(ls -A "$work/run")" ] || miss "left in the folder for sockets: $(ls "$work/run")"

# ---- as many as there is memory for ----

memory() { metric "zinc_model_memory_bytes{model=\"$1\"}" "$url"; }
serve memory --models "$work/models" --tier cpu --ctx 512 --slots 1 || finish
ask alpha 1 >/dev/null
ask gamma 1 >/dev/null
is_loaded "alpha gamma" || miss "both have room: $(loaded)"
a=$(memory alpha) g=$(memory gamma)
{ [ "$a" -gt 10000000 ] && [ "$g" -gt 1000000 ] && [ "$(memory beta)" = 0 ]; } || miss "what they take: $a, $g, $(memory beta)"
serve_end memory $pid
ZINC_LOG=server=info serve limit --models "$work/models" --tier cpu --ctx 512 --slots 1 --max-loaded-mib $(((a + g) / 1048576 - 1)) || finish
ask alpha 1 >/dev/null
is_loaded alpha || miss "alone: $(loaded)"
got=$(ask gamma 1)
is_loaded gamma || miss "alpha is to make room: $(loaded), '$got'"
got=$(ask alpha 4)
answers "alpha, in gamma's room" "Hello"
is_loaded alpha || miss "gamma is to make room: $(loaded)"
[ "$(memory gamma)" = 0 ] || miss "gamma takes $(memory gamma) and is not loaded"
serve_end limit $pid
# In this order: gamma's file alone seems to fit beside alpha, and alpha ends when it turns out not to; what gamma takes is known by then, so
# it ends before alpha is loaded beside it.
got=$(sed -nE 's/^\[ *[0-9.]+\] server info: (alpha|gamma) (is being loaded|ends: .*)/\1 \2/p' "$work/limit.log" | tr '\n' ',')
want="alpha is being loaded,gamma is being loaded,alpha ends: its memory is needed,gamma ends: its memory is needed,alpha is being loaded,alpha ends: the server ends,"
[ "$got" = "$want" ] || miss "who makes room, and when: '$got', '$want' is expected"
serve small --models "$work/models" --tier cpu --max-loaded-mib 1 || finish
got=$(ask alpha 1)
answers "more than may be taken" "model_load_failed: the model 'alpha' cannot be loaded: it takes"
answers "more than may be taken" "(--max-loaded-mib)"
serve_end small $pid

# ---- a list: options, aliases, pinned, unloaded when idle; keys ----

echo "first" >"$work/keys"
echo "second" >>"$work/keys"
cp $demo "$work/models/late.gguf"
cat >"$work/models/list.toml" <<END
ctx = 512
temp = 0.0
[small]                     # loaded from the start
model = "alpha.gguf"
alias = ["gpt-4o", "claude-*"]
pin = true
max-tokens = 3
["other one"]
model = "$work/models/beta.gguf"
unload-after = 1
think = false
[late]
model = "late.gguf"
END
serve list --models "$work/models/list.toml" --tier cpu --slots 2 --max-loaded 2 --api-key-file "$work/keys" || finish
auth='-H X-Api-Key:first'
await is_loaded "small gpt-4o" || miss "pinned, and not loaded: $(loaded)"
[ "$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/models")" = 401 ] || miss "models are told without a key"
got=$(ask claude-x-9 20)
answers "by a pattern" "Hello! How"
got=$(ask "other one" 4)
answers "other one" "Hello"
await is_loaded "small gpt-4o" || miss "not unloaded after a second: $(loaded)"
# prefixes are not shared between keys: the second key's first question finds nothing of the first one's
tokens() { curl -s -H "X-Api-Key: $1" -H 'Content-Type: application/json' "$url/v1/chat/completions" -d '{"model":"small","max_tokens":1,"messages":[{"role":"user","content":"A question of some length, asked by two."}]}' |
    python3 -c 'import json,sys; print(json.load(sys.stdin)["usage"]["prompt_tokens_details"]["cached_tokens"])'; }
[ "$(tokens first)" = 0 ] || miss "the first key's first question"
[ "$(tokens first)" -gt 0 ] || miss "the first key's second question finds nothing"
[ "$(tokens second)" = 0 ] || miss "the second key finds what the first one asked"
# a file that has gone since
rm "$work/models/late.gguf"
got=$(ask late 1)
answers "a model that cannot be loaded" "model_load_failed: the model 'late' cannot be loaded: "
got=$(ask small 2)
answers "small, after that" "Hello"
serve_end list $pid
auth=

# ---- what cannot be ----

refused() # STATUS WORDS: then zinc's arguments
{
    local status=$1 words=$2 rc
    shift 2
    timeout 60 "$zinc" serve --port 0 "$@" >"$work/out" 2>&1
    rc=$?
    { [ $rc -eq $status ] && grep -q -- "$words" "$work/out"; } || miss "serve $*: exit $rc: $(head -c 300 "$work/out"), '$words' is expected"
}
mkdir "$work/empty"
refused 2 "no model is in this folder" --models "$work/empty"
refused 2 "No such file" --models "$work/nowhere"
refused 2 "without a model beside it" --models "$work/models" -m $demo
refused 2 "names one model" --models "$work/models" --name x
refused 2 "is for several models" $demo --max-loaded 2
refused 2 "max-loaded-mib is for several models" $demo --max-loaded-mib 20
cd_list() { printf "$1" >"$work/models/bad.toml"; }
cd_list '[a]\nmodel = "alpha.gguf"\nctxx = 5\n'
refused 2 "bad.toml:3: there is no option 'ctxx' for a model: did you mean ctx" --models "$work/models/bad.toml"
cd_list '[a]\nmodel = "alpha.gguf"\nctx = "many"\n'
refused 2 "bad.toml:3: ctx: 'many' is not a whole number" --models "$work/models/bad.toml"
cd_list '[a]\nmodel = "alpha.gguf"\nport = 5\n'
refused 2 "there is no option 'port' for a model" --models "$work/models/bad.toml"
cd_list '[a]\nctx = 5\n'
refused 2 'bad.toml:1: \[a\] has no model' --models "$work/models/bad.toml"
cd_list '[a]\nmodel = "gone.gguf"\n'
refused 2 "gone.gguf: No such file" --models "$work/models/bad.toml"
cd_list '[a]\nmodel = "alpha.gguf"\npin = true\n[b]\nmodel = "beta.gguf"\n'
refused 2 "expected more than the 1 models that are pinned" --models "$work/models/bad.toml" --max-loaded 1
cd_list 'model = "alpha.gguf"\n'
refused 2 "in a model's own table" --models "$work/models/bad.toml"
finish
