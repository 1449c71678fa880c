#!/usr/bin/env bash
# The interpreter of templates gives what jinja2 gives: for cases of our own, and for templates of released models, where
# ../shared/templates or $ZINC_SHARED/templates has them, over conversations of every kind (JINJA_FULL=1: all of them).
set -u
build=${ZINC_BUILD:-${1:-build}}
python=
for p in /usr/bin/python3 python3; do
    "$p" -c 'import jinja2' 2>/dev/null && python=$p && break
done
if [ -z "$python" ]; then
    echo "no Python with jinja2 (apt-get install python3-jinja2)"
    exit 77
fi
templates=${ZINC_SHARED:-../shared}/templates
if [ ! -d "$templates" ]; then
    echo "skipped: 1 case: no $templates (set ZINC_SHARED)"
    templates=
fi
"$python" tests/unit/jinja_compare.py "$build" $templates
