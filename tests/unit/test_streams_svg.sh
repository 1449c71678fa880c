#!/usr/bin/env bash
# The picture of speeds is that of its table; a table without speeds is refused.
set -u
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-svg.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "MISS: $*"; exit 1; }
tools/streams_svg.sh doc/streams.tsv >"$work/svg" || fail "streams_svg.sh: exit $?"
cmp -s "$work/svg" doc/streams.svg || fail "doc/streams.svg is not made of doc/streams.tsv: tools/streams_svg.sh doc/streams.tsv >doc/streams.svg"
tools/quality_svg.sh doc/quality.tsv >"$work/svg" || fail "quality_svg.sh: exit $?"
cmp -s "$work/svg" doc/quality.svg || fail "doc/quality.svg is not made of doc/quality.tsv: tools/quality_svg.sh doc/quality.tsv >doc/quality.svg"
printf 'program\t1\n' >"$work/none"
tools/streams_svg.sh "$work/none" >"$work/svg" 2>"$work/err" && fail "a table without speeds makes a picture"
grep -q 'no lines with speeds' "$work/err" || fail "no reason: $(cat "$work/err")"
tools/streams_svg.sh "$work/absent" >"$work/svg" 2>"$work/err"
[ $? -eq 2 ] || fail "a table that is not there"
