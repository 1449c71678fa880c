#!/usr/bin/env bash
# The chat page in a browser without a screen: with a stand-in of the API that fails and says what the test wants, then
# with the demo model.
# needs: all cores (what a user sees is looked at when it should be there; a browser that waits for the processor is late)
. tests/e2e/lib.sh
. tests/e2e/serve.sh
[ -z "$slow_build" ] || skip "the page is the same in every build: see the release build's run"
. tests/clients/locate.sh
model=models/zinc-demo.gguf
[ -e $model ] || skip "no $model"
[ -e tests/clients/page.mjs ] || skip "no tests/clients/page.mjs"
command -v chromium >/dev/null || [ -n "${CHROMIUM:-}" ] || skip "chromium is not installed (apt-get install chromium)"
client_locate playwright-core || skip "$client_missing"
timeout 1200 node tests/clients/page.mjs || miss "the chat page with a stand-in: exit $?"
serve page -m $model --tier cpu --ctx 4096 --slots 2 --quiet || finish
timeout 1200 node tests/clients/page.mjs "$url" || miss "the chat page: exit $?"
serve_end page $pid
finish
