#!/usr/bin/env bash
# The openai npm package against the server, with the demo model on the cpu tier.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
. tests/clients/locate.sh
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
client_locate openai || skip "$client_missing"
key=client-key
serve clients -m $model --tier cpu --ctx 4096 --slots 2 --queue 4 --api-key $key --max-body 1 --quiet || finish
node tests/clients/openai.mjs "$url" $key || miss "the openai package"
serve_end clients $pid
finish
