#!/usr/bin/env bash
# doc/env.md shows what `zinc --help-env` prints.
set -u
zinc=${ZINC_BUILD:-build}/zinc
[ -x "$zinc" ] || { echo "no $zinc"; exit 77; }
sed -n '/^```$/,/^```$/p' doc/env.md | grep -v '^```$' | diff -u - <("$zinc" --help-env) || {
    echo "doc/env.md (-) is not what zinc --help-env prints (+)"
    exit 1
}
