#!/usr/bin/env bash
# Answers in the form of a schema: some 300 schemas of our own, with the questions that belong to them, answered by a
# released model and judged by Python's jsonschema; and the grammars alone, by random texts and changed ones.
. tests/real/lib.sh
. tests/e2e/serve.sh
need_real model
need_real schemas
match=$build/tests/real/schema_match
[ -x "$match" ] || skip "no $match: make tests"

"$real_python" tests/real/schemas.py grammar "$match" || miss "grammars against jsonschema: $? above"
serve schemas -m "$real_model" --tier cpu --ctx 1024 --slots 16 --queue 64 --quiet
"$real_python" tests/real/schemas.py answers "$url" "$match" || miss "answers against jsonschema: $? above"
finish
