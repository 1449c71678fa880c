#!/bin/sh
# The chat page's parts that need no browser: Markdown, colours of code, streams of events.
command -v node >/dev/null || { echo "no node (apt-get install nodejs)"; exit 77; }
exec node tests/unit/test_page_markdown.mjs
