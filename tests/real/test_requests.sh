#!/usr/bin/env bash
# The requests that aider, open-webui, continue, LibreChat, Zed, Cline, Roo Code, llama.vim, evaluation harnesses, benchmarks
# and curl are known to send, against the released model.
. tests/real/lib.sh
. tests/e2e/serve.sh
need_real model
need_real clients # for jsonschema
serve requests -m "$real_model" --tier cpu --ctx 512 --slots 2 --max-tokens 40 --cors http://localhost:3000 --quiet || finish
PYTHONDONTWRITEBYTECODE=1 timeout 1500 "$real_python" tests/real/clients_requests.py "$url" tests/real/requests/*.json ||
    miss "clients_requests.py: exit $?"
serve_end requests $pid
finish
