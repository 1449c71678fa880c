#!/usr/bin/env bash
# streamdump: every view of a saved stream, and what wrong use and wrong files are answered with.
set -u
dump=${ZINC_BUILD:-build}/streamdump
seed=tests/fuzz/corpus/fuzz_stream/llama.zstream
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
[ -x "$dump" ] || { echo "no $dump: make it first"; exit 77; }

# A seed lacks the closing hash: 64-bit FNV-1a of all that is before it.
python3 - "$seed" "$work/a.zstream" <<'PY' || { echo "no python3"; exit 77; }
import sys
b = open(sys.argv[1], "rb").read()
h = 0xcbf29ce484222325
for x in b:
    h = (h ^ x) * 0x100000001b3 & 0xffffffffffffffff
open(sys.argv[2], "wb").write(b + h.to_bytes(8, "little"))
PY

"$dump" "$work/a.zstream" >"$work/dump" || fail "dump: exit $?"
diff "$work/dump" tests/stream/golden/llama.txt || fail "the dump is not the golden one"
"$dump" --plan "$work/a.zstream" | grep -q '^weights .* kv .* scratch' || fail "--plan"
[ "$("$dump" --patches "$work/a.zstream" | wc -l)" = 15 ] || fail "--patches: not fourteen symbols"
"$dump" --cost --rows=2 --kv=10 "$work/a.zstream" | grep -q '^ *total' || fail "--cost: no total"
"$dump" --json "$work/a.zstream" | python3 -m json.tool >/dev/null || fail "--json is no JSON"
"$dump" --dot "$work/a.zstream" | grep -q '^digraph stream {' || fail "--dot"
"$dump" --help | grep -q 'usage: streamdump' || fail "--help"

head -c 1000 "$work/a.zstream" >"$work/cut.zstream"
"$dump" "$work/cut.zstream" 2>"$work/err"; [ $? = 1 ] || fail "a truncated file: no exit 1"
grep -q 'cut.zstream' "$work/err" || fail "the message does not name the file"
[ "$(wc -l <"$work/err")" = 1 ] || fail "the message is not one line"
"$dump" "$work/none" 2>"$work/err"; [ $? = 1 ] || fail "a missing file: no exit 1"
"$dump" 2>/dev/null; [ $? = 2 ] || fail "no file: no exit 2"
"$dump" --rows=x "$work/a.zstream" 2>/dev/null; [ $? = 2 ] || fail "--rows=x: no exit 2"
"$dump" --bogus "$work/a.zstream" 2>/dev/null; [ $? = 2 ] || fail "--bogus: no exit 2"
"$dump" "$work/a.zstream" >/dev/full 2>/dev/null; [ $? = 1 ] || fail "a full disk: no exit 1"
exit 0
