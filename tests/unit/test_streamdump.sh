#!/usr/bin/env bash
# streamdump: every view of a saved stream, the lists of its persistent plan, and what wrong use and wrong files are answered with.
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
# the lists of its persistent plan, made and from a file
"$dump" --walk --save="$work/a.zwalk" "$work/a.zstream" >"$work/walk" || fail "--walk: exit $?"
diff "$work/walk" tests/stream/golden/llama_walk.txt || fail "the lists are not the golden ones"
"$dump" --walk --lists="$work/a.zwalk" "$work/a.zstream" | cmp - "$work/walk" || fail "--lists: other lists than those that were saved"
"$dump" --walk --json "$work/a.zstream" | python3 -c '
import json, sys
d = json.load(sys.stdin)
it = d["lists"][0]["items"]
assert d["verified"]["ok"] and [i["index"] for i in it] == list(range(len(it)))
assert [i["need"] for i in it] == [sum(k["adds"] for k in it[:i["behind"]]) for i in it]
tiles = lambda i: i["grid"][0] * i["grid"][1] * i["grid"][2]
assert sum(g["tiles"] for g in d["lists"][0]["loads"]) == sum(map(tiles, it))
' || fail "--walk --json"
"$dump" --walk --group=1 "$work/a.zstream" >"$work/group" || fail "--group: exit $?"
line='^1 PROJ command 1 layer 0 kernel k_matvec_q80_r1 tile 1 every 5 to 6 of 8 weights 1152, waits for 1: items up to 0, adds 1 of 5$'
grep -q "$line" "$work/group" || fail "--group=1: $(head -n 4 "$work/group")"
"$dump" --walk --groups=3 --cores=2 "$work/a.zstream" | grep -q '^list 0 launches 0 to 16 work-groups 3 bytes' || fail "--groups"
printf '\001' | dd of="$work/a.zwalk" bs=1 seek=70 conv=notrunc status=none
"$dump" --walk --lists="$work/a.zwalk" "$work/a.zstream" >"$work/out" 2>"$work/err"; [ $? = 1 ] || fail "damaged lists: no exit 1"
grep -q 'a.zwalk: damaged' "$work/err" && [ "$(wc -l <"$work/err")" = 1 ] && [ ! -s "$work/out" ] || fail "damaged lists: $(cat "$work/err")"
for wrong in "--walk --cost" "--card=host" "--walk --card=none" "--walk --lists=x --groups=2" "--walk --group=1 --json" "--walk --groups=0"; do
    "$dump" $wrong "$work/a.zstream" >/dev/null 2>"$work/err"; [ $? = 2 ] || fail "$wrong: no exit 2"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$wrong: $(cat "$work/err")"
done
"$dump" --walk "$work/a.zstream" >/dev/full 2>/dev/null; [ $? = 1 ] || fail "--walk: a full disk: no exit 1"

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
