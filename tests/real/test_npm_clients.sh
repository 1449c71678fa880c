#!/usr/bin/env bash
# openai, anthropic, ollama, ai and langchain as npm has them, against the demo model.
. tests/real/lib.sh
. tests/e2e/serve.sh
need_real npm
key=client-key
serve keyed -m models/zinc-demo.gguf --tier cpu --ctx 4096 --slots 2 --api-key $key --quiet || finish
CLIENTS_DIR=$real_npm timeout 600 node tests/real/clients.mjs "$url" $key || miss "clients.mjs: exit $?"
serve_end keyed $pid
finish
