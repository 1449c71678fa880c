#!/usr/bin/env bash
# anthropic, openai's responses and ollama as PyPI has them, against the demo model: none of them speaks chat completions. And
# openai's and ollama's, as they ask for vectors.
. tests/real/lib.sh
. tests/e2e/serve.sh
need_real dialects
key=client-key
serve keyed -m models/zinc-demo.gguf --tier cpu --ctx 2048 --slots 2 --api-key $key --quiet || finish
PYTHONDONTWRITEBYTECODE=1 timeout 900 "$real_python" tests/real/dialects.py "$url" $key || miss "dialects.py: exit $?"
serve_end keyed $pid
make_model qwen3-embed Q8_0 "$work/vectors.gguf" || finish
serve vectors -m "$work/vectors.gguf" --tier cpu --ctx 1024 --slots 8 --api-key $key --quiet || finish
PYTHONDONTWRITEBYTECODE=1 timeout 900 "$real_python" tests/real/vectors.py "$url" $key || miss "vectors.py: exit $?"
serve_end vectors $pid
finish
