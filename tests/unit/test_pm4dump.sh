#!/usr/bin/env bash
# pm4dump through the built program: text and raw input, text and JSON output, judged addresses, one-line errors.
set -u
build=${ZINC_BUILD:-build}
dump=$build/pm4dump
[ -x "$dump" ] || { echo "no $dump: make first"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-pm4dump.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
misses=0
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
}
# prints PATTERN COMMAND...: success, and the pattern on stdout
prints()
{
    local words=$1
    shift
    timeout 60 "$@" >"$work/out" 2>"$work/err" || miss "exit $?: $*: $(cat "$work/err")"
    grep -q -e "$words" "$work/out" || miss "stdout has no '$words': $*: $(cat "$work/out")"
}
# fails STATUS WORDS COMMAND...: that exit status, one line on stderr with the words
fails()
{
    local want=$1 words=$2 rc
    shift 2
    timeout 60 "$@" >"$work/out" 2>"$work/err" </dev/null
    rc=$?
    [ $rc -eq "$want" ] || miss "exit $rc, expected $want: $*"
    grep -q -e "$words" "$work/err" || miss "stderr has no '$words': $*: $(cat "$work/err")"
    [ "$(wc -l <"$work/err")" -eq 1 ] || miss "not one line on stderr: $*: $(cat "$work/err")"
}

cat >"$work/launch.txt" <<'END'
# a kernel's address, its dispatch, and the fence
C0027600 0000020C 00001000 0x0000007F
C0031500, 4, 1, 1, 8005
C0064900 0070F514 20000000 00300000 00007F00 00000001 00000000 00000000
END
# The same as little-endian dwords.
sed 's/#.*//' "$work/launch.txt" | tr ', ' '\n\n' | sed 's/^0x//' | while read -r w; do
    [ -n "$w" ] || continue
    w=$(printf '%08x' "0x$w")
    printf '%b' "\\x${w:6:2}\\x${w:4:2}\\x${w:2:2}\\x${w:0:2}"
done >"$work/launch.bin"
[ "$(stat -c %s "$work/launch.bin")" -eq 68 ] || miss "launch.bin has $(stat -c %s "$work/launch.bin") bytes"

prints 'DISPATCH_DIRECT    dim_x=4 dim_y=1 dim_z=1 COMPUTE_DISPATCH_INITIATOR=0x00008005' "$dump" "$work/launch.txt"
"$dump" "$work/launch.txt" >"$work/from-text"
"$dump" "$work/launch.bin" >"$work/from-raw"
cmp -s "$work/from-text" "$work/from-raw" || miss "text and raw input differ"
"$dump" <"$work/launch.bin" | cmp -s - "$work/from-raw" || miss "standard input differs from a file"
prints 'CS_W32_EN=1' "$dump" --verbose "$work/launch.bin"
prints 'COMPUTE_PGM=0x7f0000100000' "$dump" --gen=gfx1100 "$work/launch.bin"

printf '%s\n' '# live' '0x7F0000100000 4096 code' '139637979250688 0x1000 my fence' >"$work/buffers"
prints 'COMPUTE_PGM=0x7f0000100000\[code+0x0\]' "$dump" --buffers="$work/buffers" "$work/launch.bin"
prints '! addr: write of 4 bytes at 0x7f0000300000: in no buffer' "$dump" --buffers="$work/buffers" "$work/launch.bin"
echo '0x7F0000300000 2 fence' >>"$work/buffers"
prints 'runs past the end of fence' "$dump" --buffers="$work/buffers" "$work/launch.bin"
prints 'RELEASE_MEM' "$dump" --check "$work/launch.bin"
timeout 60 "$dump" --check --buffers="$work/buffers" "$work/launch.bin" >/dev/null && miss "--check did not say 1"

prints '"name": "RELEASE_MEM"' "$dump" --json "$work/launch.bin"
if command -v python3 >/dev/null; then
    "$dump" --json --buffers="$work/buffers" "$work/launch.bin" | python3 -c '
import json, sys
d = json.load(sys.stdin)
assert [p["name"] for p in d["packets"]] == ["SET_SH_REG", "DISPATCH_DIRECT", "RELEASE_MEM"], d
assert sum(len(p["problems"]) for p in d["packets"]) == d["problems"] == 1, d
assert sum(p["dwords"] for p in d["packets"]) == d["dwords"] == 17, d
f = {v["name"]: v for v in d["packets"][2]["fields"]}
assert f["addr"]["value"] == "0x7f0000300000" and f["data_sel"]["word"] == "32_bits", f
assert "past the end" in f["addr"]["verdict"], f
' || miss "the JSON is not as expected"
fi

fails 1 'cannot be read' "$dump" "$work/nothing"
fails 1 'cannot be read' "$dump" "$work"
fails 1 'holds no dwords' "$dump"
echo 'C0004600 40g' >"$work/bad"
fails 1 "line 1: '40g' is no word" "$dump" "$work/bad"
echo 'C00046001' >"$work/bad"
fails 1 'is no word of 1 to 8 hex digits' "$dump" "$work/bad"
printf 'abc\001d' >"$work/bad"
fails 1 '5 bytes: neither text nor a whole number of dwords' "$dump" "$work/bad"
echo '0x1000 no size' >"$work/bad"
fails 1 'line 1: expected ADDRESS BYTES NAME' "$dump" --buffers="$work/bad" "$work/launch.bin"
fails 2 'expected gfx11 or gfx12' "$dump" --gen=gfx9 "$work/launch.bin"
prints 'usage: pm4dump' "$dump" --help
[ $misses -eq 0 ] || { echo "$misses misses"; exit 1; }
