#!/usr/bin/env bash
# A quantiser that was killed, or met a full disk, goes on where it stopped: the file is the one of a run that nothing disturbed, byte
# for byte, whatever lies there from before.
source tests/e2e/lib.sh
quantize=$build/quantize
m=$work/m.gguf out=$work/out.gguf
slow=IQ2_S # a second, so that it can be killed on the way
case $build in */sanitize) slow=IQ4_NL ;; esac # there three, and not twelve
"$mkmodel" tiny-qwen3 "$m" >/dev/null 2>&1 || { miss "mkmodel"; finish; }
lines() { echo $(($(stat -c %s "$out.begun.sums" 2>/dev/null || echo 0) / 66)); }
# whole NAME FILE ARGS...: quantize ARGS ends well, makes this file and leaves nothing else; its words are in $work/err
whole()
{
    local name=$1 file=$2
    shift 2
    "$quantize" "$@" >"$work/said" 2>"$work/err" || miss "$name: exit $?: $(tail -n 1 "$work/err")"
    cmp -s "$file" "$out" || miss "$name: not the file of an undisturbed run"
    [ -z "$(ls "$out".* 2>/dev/null)" ] || miss "$name: left behind: $(ls "$out".*)"
    rm -f "$out"
}
says() { grep -qF "$2" "$work/err" || miss "$1: '$2' is expected: $(cat "$work/err")"; }
# keeps: what there is now is what the next cases begin with; begin: they do
keeps() { cp "$out.begun" "$work/kept" && cp "$out.begun.sums" "$work/kept.sums" || miss "nothing was kept"; }
begin() { rm -f "$out"*; cp "$work/kept" "$out.begun"; cp "$work/kept.sums" "$out.begun.sums"; }
flip() { printf '\x5a' | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null; }

# ---- killed, and killed again
"$quantize" "$m" "$work/slow.gguf" $slow --threads 1 2>/dev/null || miss "quantize"
killed=0
for at in 2 9 15; do
    "$quantize" "$m" "$out" $slow --threads 1 2>"$work/err" &
    pid=$!
    there() { [ "$(lines)" -ge $at ] || ended $pid; }
    await there
    kill -KILL $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null
    [ ! -e "$out" ] || { miss "killed at $at: it was through already"; break; }
    [ $at = 2 ] || says "killed at $at" "going on where an earlier run stopped"
done
[ $killed = 3 ] || miss "it was killed $killed times, not 3"
before=$(lines)
whole "killed three times" "$work/slow.gguf" "$m" "$out" $slow
says "killed three times" "going on where an earlier run stopped"
[ "$before" -ge 15 ] || miss "after three runs $before pieces were finished, not 15"

# ---- a full disk, at places that do not change
"$quantize" "$m" "$work/ref.gguf" Q4_K_M 2>/dev/null || miss "quantize"
bytes=$(stat -c %s "$work/ref.gguf")
for percent in 3 40 99; do
    (ulimit -f $((bytes * percent / 100 / 1024)); "$quantize" "$m" "$out" Q4_K_M 2>"$work/err") && miss "a full disk: it succeeds"
    says "a full disk" "File too large"
    says "a full disk" "the same command goes on where it stopped"
    [ ! -e "$out" ] || miss "a full disk: the file has its name"
    [ $percent != 40 ] || keeps
done
whole "a full disk" "$work/ref.gguf" "$m" "$out" Q4_K_M
says "a full disk" "going on where an earlier run stopped"
for threads in 1 3; do
    begin
    whole "$threads threads" "$work/ref.gguf" "$m" "$out" Q4_K_M --threads $threads
done
mkdir "$work/small"
if mount -t tmpfs -o size=$((bytes / 2 / 1024))k zinc-test "$work/small" 2>/dev/null; then
    trap 'umount "$work/small"; rm -rf "$work"' EXIT
    "$quantize" "$m" "$work/small/x.gguf" Q4_K_M 2>"$work/err" && miss "a small disk: it succeeds"
    says "a small disk" "MiB are free there"
    [ -z "$(ls "$work/small")" ] || miss "a small disk: left behind: $(ls "$work/small")"
fi

# ---- what was left is damaged: what is right of it is kept, and nothing else
n=$(($(stat -c %s "$work/kept.sums") / 66)) end=$(stat -c %s "$work/kept")
[ "$n" -ge 5 ] || miss "only $n pieces at 40 %"
damaged() # NAME WORDS: it comes out right, and says so
{
    whole "$1" "$work/ref.gguf" "$m" "$out" Q4_K_M
    [ -z "$2" ] || says "$1" "$2"
}
begin; truncate -s -30 "$out.begun.sums"; damaged "a torn line" "going on"
begin; truncate -s 0 "$out.begun.sums"; damaged "no sums" ""
begin; rm "$out.begun.sums"; damaged "no file of sums" ""
begin; rm "$out.begun"; damaged "no file" "begun anew"
begin; truncate -s 1000 "$out.begun"; damaged "a file cut in its head" "begun anew"
begin; truncate -s -200000 "$out.begun"; damaged "a file cut behind its head" "made anew from there"
begin; head -c 9000000 /dev/zero >>"$out.begun"; damaged "a file that is too long" "going on"
begin; flip "$out.begun" 30; damaged "a byte of the metadata" "begun anew"
begin; flip "$out.begun" $((end / 2)); damaged "a byte in the middle" "made anew from there"
begin; flip "$out.begun.sums" 70; damaged "a digit of a sum" ""
begin; head -c 5000 /dev/urandom >"$out.begun.sums"; damaged "sums that are none" ""
begin; { head -c 660 "$work/kept.sums"; head -c 660 "$work/kept.sums"; } >"$out.begun.sums"; damaged "sums of other pieces" "made anew from there"
begin; head -c 66 "$work/kept.sums" >"$out.begun.sums"; damaged "one line" "going on"

# ---- another input, recipe, importance matrix
"$mkmodel" tiny-qwen3 "$work/other.gguf" --seed 2 >/dev/null 2>&1
"$quantize" "$work/other.gguf" "$work/other.q.gguf" Q4_K_M 2>/dev/null
begin
whole "another input" "$work/other.q.gguf" "$work/other.gguf" "$out" Q4_K_M
says "another input" "made anew from there"
cp "$m" "$work/changed.gguf" # some weights of what was quantised already
dd if=/dev/zero of="$work/changed.gguf" bs=256 seek=$(($(stat -c %s "$m") / 1024)) count=1 conv=notrunc 2>/dev/null
"$quantize" "$work/changed.gguf" "$work/changed.q.gguf" Q4_K_M 2>/dev/null
cmp -s "$work/changed.q.gguf" "$work/ref.gguf" && miss "a changed weight changes nothing: the case shows nothing"
begin
whole "some weights changed" "$work/changed.q.gguf" "$work/changed.gguf" "$out" Q4_K_M
says "some weights changed" "going on where an earlier run stopped"
"$quantize" "$m" "$work/q5.gguf" Q5_K_M 2>/dev/null
begin
whole "another recipe" "$work/q5.gguf" "$m" "$out" Q5_K_M
says "another recipe" "begun anew"
mkdir "$work/a" "$work/b"
head -c 4000 doc/layout.md >"$work/a/text" && head -c 4000 doc/server.md >"$work/b/text"
for d in a b; do
    "$zinc" imatrix -q -m "$m" --ctx 96 -f "$work/$d/text" --chunks 2 -o "$work/$d/im.gguf" >/dev/null 2>"$work/err" ||
        miss "imatrix: $(cat "$work/err")"
    "$quantize" "$m" "$work/$d/ref.gguf" Q4_K_M --imatrix "$work/$d/im.gguf" 2>/dev/null
done
cmp -s "$work/a/ref.gguf" "$work/b/ref.gguf" && miss "two importance matrices give one file: the case shows nothing"
(ulimit -f $((bytes * 60 / 100 / 1024)); "$quantize" "$m" "$out" Q4_K_M --imatrix "$work/a/im.gguf" 2>/dev/null)
keeps
whole "the same importance matrix" "$work/a/ref.gguf" "$m" "$out" Q4_K_M --imatrix "$work/a/im.gguf"
says "the same importance matrix" "going on where an earlier run stopped"
begin
whole "another importance matrix" "$work/b/ref.gguf" "$m" "$out" Q4_K_M --imatrix "$work/b/im.gguf"
says "another importance matrix" "made anew from there"
begin
whole "without importance" "$work/ref.gguf" "$m" "$out" Q4_K_M

# ---- an importance matrix tells where it is from; shapes alone would not tell one model's from another's
"$quantize" "$m" "$out" Q4_K_M --imatrix "$work/a/im.gguf" 2>"$work/err"
says "of this model" "from the model 'tiny-qwen3' on the text 'text', 2 pieces"
grep -q warning "$work/err" && miss "of this model: $(cat "$work/err")"
"$mkmodel" tiny-qwen3-rerank "$work/rerank.gguf" >/dev/null 2>&1
"$quantize" "$work/rerank.gguf" "$out" Q4_K_M --imatrix "$work/a/im.gguf" 2>"$work/err" || miss "of another model: exit $?"
says "of another model" "warning: $work/a/im.gguf is of the model 'tiny-qwen3', and $work/rerank.gguf is 'tiny-qwen3-rerank'"
rm -f "$out"
le() { local v=$1 i; for ((i = 0; i < $2; i++)); do printf "\\x$(printf %02x $((v & 255)))"; v=$((v >> 8)); done; }
{ # the older form
    le 1 4; le 23 4; printf blk.0.attn_output.weight | head -c 23; le 1 4; le 512 4; head -c 2048 /dev/zero; le 3 4; le 4 4; printf wiki
} >"$work/old.dat"
"$quantize" "$m" "$out" Q4_K_M --imatrix "$work/old.dat" 2>"$work/err" && miss "the older form: a matrix that is none of the model's is taken"
says "the older form" "says nothing about any of the model's"
{
    le 1 4; le 19 4; printf blk.0.attn_q.weight; le 1 4; le 256 4; yes abcd | head -c 1024; le 3 4; le 4 4; printf wiki
} >"$work/old.dat"
"$quantize" "$m" "$out" Q4_K_M --imatrix "$work/old.dat" 2>"$work/err" || miss "the older form: $(cat "$work/err")"
says "the older form" "importance of 1 matrices from the text 'wiki', 3 pieces"
head -c 500 "$work/old.dat" >"$work/cut.dat"
"$quantize" "$m" "$out" Q4_K_M --imatrix "$work/cut.dat" 2>"$work/err" && miss "a damaged importance matrix is taken"
[ "$(wc -l <"$work/err")" = 1 ] && says "a damaged importance matrix" "the file is damaged, or no importance matrix" || miss "not one line: $(cat "$work/err")"
rm -f "$out"

# ---- another program: a byte more behind its end makes it one
cp "$quantize" "$work/quantize" && echo >>"$work/quantize"
begin
"$work/quantize" "$m" "$out" Q4_K_M --imatrix "$work/a/im.gguf" 2>"$work/err" || miss "another program: exit $?"
says "another program" "made anew from there"
cmp -s "$out" "$work/a/ref.gguf" || miss "another program: another file"
rm -f "$out"

# ---- interrupted; two at once; a tensor in several pieces; an input that cannot be quantised
"$quantize" "$m" "$out" $slow --threads 1 2>"$work/err" &
pid=$!
at=3
await there
"$quantize" "$m" "$out" $slow 2>"$work/two" && miss "two at once: the second succeeds"
grep -qF 'another program is writing it' "$work/two" || miss "two at once: $(cat "$work/two")"
kill -INT $pid
wait $pid && miss "interrupted: exit 0"
says "interrupted" "interrupted; the same command goes on where it stopped ($out.begun)"
whole "interrupted" "$work/slow.gguf" "$m" "$out" $slow

text() { le ${#1} 8; printf %s "$1"; }
{
    printf GGUF; le 3 4; le 1 8; le 1 8
    text general.architecture; le 8 4; text qwen3
    text blk.0.ffn_up.weight; le 2 4; le 1024 8; le 17000 8; le 1 4; le 0 8
} >"$work/big.gguf"
[ $(($(stat -c %s "$work/big.gguf") % 32)) = 0 ] || miss "big: $(stat -c %s "$work/big.gguf") bytes of head"
yes 'some weights in F16, all of them finite' | head -c $((1024 * 17000 * 2)) >>"$work/big.gguf"
"$quantize" "$work/big.gguf" "$work/big.q.gguf" Q4_0 2>"$work/err" || miss "big: $(cat "$work/err")"
(ulimit -f $((1024 * 17000 * 18 / 32 / 1024 * 98 / 100)); "$quantize" "$work/big.gguf" "$out" Q4_0 2>/dev/null)
[ "$(lines)" = 2 ] || miss "big: $(lines) pieces of 3, 2 were expected"
whole "a tensor in pieces" "$work/big.q.gguf" "$work/big.gguf" "$out" Q4_0
says "a tensor in pieces" "going on where an earlier run stopped"

cp "$m" "$work/nan.gguf" # the last tensors hold NaN
head -c 400000 /dev/zero | tr '\0' '\377' | dd of="$work/nan.gguf" bs=4096 seek=$(($(stat -c %s "$m") / 4096 - 110)) conv=notrunc 2>/dev/null
"$quantize" "$work/nan.gguf" "$out" Q4_K_M 2>"$work/err" && miss "NaN: it succeeds"
says "NaN" "is NaN"
[ -z "$(ls "$out"* 2>/dev/null)" ] || miss "NaN: left behind: $(ls "$out"*)"
finish
