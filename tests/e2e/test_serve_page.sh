#!/usr/bin/env bash
# The chat page in a browser without a screen, served with the demo model.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
. tests/clients/locate.sh
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
[ -e tests/clients/page.mjs ] || skip "no tests/clients/page.mjs"
command -v chromium >/dev/null || [ -n "${CHROMIUM:-}" ] || skip "chromium is not installed (apt-get install chromium)"
client_locate playwright-core || skip "$client_missing"
serve page -m $model --tier cpu --ctx 4096 --slots 2 --quiet || finish
timeout 300 node tests/clients/page.mjs "$url" || miss "the chat page: exit $?"
serve_end page $pid
finish
