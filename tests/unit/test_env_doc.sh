#!/usr/bin/env bash
# doc/env.md shows what `zinc --help-env` prints.
set -u
zinc=${ZINC_BUILD:-build}/zinc
[ -x "$zinc" ] || { echo "no $zinc"; exit 77; }
awk '/^```text$/ { on = 1; next } /^```$/ { on = 0 } on' doc/env.md | diff -u - <("$zinc" --help-env) || {
    echo "doc/env.md (-) is not what zinc --help-env prints (+)"
    exit 1
}
