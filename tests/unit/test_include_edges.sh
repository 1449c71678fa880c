#!/usr/bin/env bash
# The tree's includes point down only, and the script that says so sees one that does not.
set -u
tools/include_edges.sh >/tmp/edges.$$ || { grep 'may not' /tmp/edges.$$; rm -f /tmp/edges.$$; exit 1; }
rm -f /tmp/edges.$$

tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp"/tools "$tmp"/base "$tmp"/oracle "$tmp"/graph "$tmp"/cli "$tmp"/engine/grammar "$tmp"/engine/serve
cp tools/include_edges.sh "$tmp/tools/"
try() # FILE HEADER WANTED_EXIT
{
    rm -f "$tmp"/*/*.c "$tmp"/engine/*/*.c
    printf '#include "%s"\n' "$2" >"$tmp/$1"
    "$tmp/tools/include_edges.sh" >"$tmp/out"
    rc=$?
    [ $rc -eq "$3" ] || { echo "$1 including $2: exit $rc, expected $3"; cat "$tmp/out"; exit 1; }
}
try base/a.c engine/engine.h 1
try graph/a.c rt/tier.h 1
try oracle/a.c graph/graph.h 1
try oracle/a.c graph/stream.h 0
try graph/a.c model/model.h 0
try engine/grammar/a.c engine/engine.h 1
try engine/serve/a.c engine/priv.h 0
try cli/a.c engine/priv.h 1
try cli/a.c engine/engine.h 0
mkdir "$tmp/toy"
try toy/a.c rt/tier.h 1
