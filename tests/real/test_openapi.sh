#!/usr/bin/env bash
# schemathesis over the running server, by the description that the server itself hands out: what is described as right
# is taken, what is described as wrong is refused, and answers, streams and errors have the forms that are told. The demo
# model on the cpu tier; the same cases each time.
. tests/real/lib.sh
. tests/e2e/serve.sh
need_real openapi
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
serve openapi -m $model --tier cpu --ctx 512 --slots 2 --max-tokens 2 --quiet || finish
curl -s "$url/openapi.json" >"$work/openapi.json"
cmp -s "$work/openapi.json" share/openapi.json || miss "/openapi.json is not share/openapi.json"

root=$PWD
checks=not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance
checks=$checks,negative_data_rejection,unsupported_method,server_takes_what_is_described
export OPENAPI_FILE=$work/openapi.json OPENAPI_SEEN=$work/seen PYTHONPATH=$root/tests/real PYTHONDONTWRITEBYTECODE=1
export SCHEMATHESIS_HOOKS=openapi_hooks
(cd "$work" && timeout 1500 "$root/$real_python" -m schemathesis.cli run openapi.json --url "$url" --phases coverage,fuzzing \
    --checks $checks --generation-deterministic -n 5 --request-timeout 600 --no-color --continue-on-failure \
    --include-path-regex '^/(v1/|api/|health|metrics|openapi|infill|props|slots|apply-template|$)') >"$work/out" 2>&1 # the other paths are the same ones
rc=$?
if [ $rc -ne 0 ]; then
    grep -nE '^____|^- |Invalid component|Received:|Event #|to a body|^ +curl ' "$work/out" | cut -c 1-300 | head -40
    tail -n 3 "$work/out"
    miss "schemathesis: exit $rc"
fi
"$real_python" tests/real/openapi_hooks.py >"$work/counts" || miss "what was sent cannot be read"
cat "$work/counts"
misses=$((misses + $(grep -c ^MISS "$work/counts")))
serve_end openapi $pid
finish
