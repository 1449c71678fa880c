#!/usr/bin/env bash
# openai, litellm and langchain-openai as PyPI has them, against the released model: with a key, and without.
. tests/real/lib.sh
. tests/e2e/serve.sh
need_real model
need_real clients
key=client-key
serve open -m "$real_model" --tier cpu --ctx 1024 --slots 1 --quiet || finish
open_url=$url open_pid=$pid
serve keyed -m "$real_model" --tier cpu --ctx 2048 --slots 2 --queue 2 --max-body 1 --api-key $key --quiet || finish
PYTHONDONTWRITEBYTECODE=1 timeout 1500 "$real_python" tests/real/clients.py "$url" $key "$open_url" || miss "clients.py: exit $?"
serve_end keyed $pid
serve_end open "$open_pid"
finish
