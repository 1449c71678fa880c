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

# its markup by a validator, which finds what is made to be found
if client_locate html-validate; then
    validate=build/clients/node_modules/html-validate/bin/html-validate.mjs

    echo '{ "root": true, "extends": ["html-validate:standard"] }' >"$work/.htmlvalidate.json"
    tools/gen/inline_page.sh server/page/index.html >"$work/page.html"
    sed 's#<main>#<main><p><div></p>#' "$work/page.html" >"$work/broken.html"
    node "$validate" --config "$work/.htmlvalidate.json" "$work/page.html" >"$work/out" 2>&1 || miss "markup: $(cat "$work/out")"
    node "$validate" --config "$work/.htmlvalidate.json" "$work/broken.html" >"$work/out" 2>&1 && miss "broken markup passes"
else
    echo "skipped: 1 cases: $client_missing"
fi

timeout 1200 node tests/clients/page.mjs || miss "the chat page with a stand-in: exit $?"
serve page -m $model --tier cpu --ctx 4096 --slots 2 --quiet || finish
timeout 1200 node tests/clients/page.mjs "$url" || miss "the chat page: exit $?"
serve_end page $pid
finish
