#!/usr/bin/env bash
# Compiled pipelines on disk (metal/archive.c), on build/metalsim: a second start compiles nothing, another model adds what it
# needs, and whatever is wrong with a file or the folder costs a line at most.
. tests/e2e/lib.sh
case $build in */*) skip "the release build runs it: the kernels' Metal texts are not built for sanitizers" ;; esac
[ -e $build/libmetalsim.so ] || skip "no $build/libmetalsim.so in this build"
export ZINC_METAL_CACHE=$work/deep/er/cache
for f in qwen3 gemma3; do
    make_model $f Q8_0 "$work/$f.gguf" --layers 1 || exit 1
done

# starts COMPILED LINES OPTIONS...: of $model: tokens come, so many pipelines are compiled (all: every one; some), with so
# many lines of log
model=qwen3
starts()
{
    local want=$1 lines=$2 stats compiled all
    shift 2
    timeout 300 $build/metalsim --stats "$@" "$zinc" run -m "$work/$model.gguf" --tier metal --prompt-tokens 5 -n 2 --temp 0 \
        --ctx 64 >"$work/out" 2>"$work/err" || miss "$model, $*: $(grep -v '^metalsim' "$work/err" | tail -n 1)"
    stats=$(grep '^metalsim: messages' "$work/err")
    all=$(sed 's/.*pipelines \([0-9]*\),.*/\1/' <<<"$stats")
    compiled=${stats##*compiled }
    case $want in all) want=$all ;; some) want=$((compiled > 0 && compiled < all ? compiled : -1)) ;; esac
    [ "$compiled" = "$want" ] || miss "$model, $*: $compiled of $all pipelines compiled, not $want"
    [ "$(grep -c 'archive.* is ignored' "$work/err")" -eq "$lines" ] || miss "$model, $*: lines: $(grep warn "$work/err")"
    printf '%-8s %-12s %s\n' $model "$*" "$stats"
}
files() { ls "$ZINC_METAL_CACHE"/metal-*.archive 2>/dev/null; }
count() # N
{
    [ "$(files | wc -l)" -eq "$1" ] || miss "$(files | wc -l) archives, not $1"
    [ -z "$(find "$work/deep" -name '*.new*')" ] || miss "left behind: $(find "$work/deep" -name '*.new*')"
}
xxh64() # FILE
{
    python3 -c 'import ctypes, sys
x = ctypes.CDLL("libxxhash.so.0").XXH64
x.restype, b = ctypes.c_uint64, open(sys.argv[1], "rb").read()
print("%016x" % x(b, ctypes.c_size_t(len(b)), ctypes.c_uint64(0)))' "$1"
}

starts all 0
count 1
cp "$work/out" "$work/first"
starts 0 0
cmp -s "$work/out" "$work/first" || miss "other tokens out of the archive"
model=gemma3 && starts some 0
count 2
starts 0 0
model=qwen3 && starts 0 0
count 2

# Two at once, from nothing.
rm "$ZINC_METAL_CACHE"/*
(starts all 0 >/dev/null) & (model=gemma3 && starts all 0 >/dev/null)
wait
starts 0 0
model=gemma3 && starts 0 0
model=qwen3

# A byte that changed; what Metal itself does not take; another macOS, whose archives stay where they are.
rm "$ZINC_METAL_CACHE"/*
starts all 0
own=$(files)
printf X | dd of="$own" bs=1 seek=40 conv=notrunc 2>/dev/null
starts all 1
count 1
starts 0 0
key=${own%-*}
: >"$key-ef46db3751d8e999.archive" # XXH64 of nothing
starts 0 1
count 1
starts all 0 --macos=26
count 2
starts 0 0 --macos=26
starts 0 0
# A file of that macOS under this one's name opens and has nothing.
other=$(files | grep -v "$key")
mv "$own" "$work/own"
cp "$other" "$key-${other##*-}"
starts all 0
count 3
starts 0 0

# Sixteen are read; then a new one takes their place.
rm "$ZINC_METAL_CACHE"/*
for i in $(seq 16); do
    printf 'metalsim archive\nApple M1, macOS 15\nnone %d\nend\n' "$i" >"$work/one"
    cp "$work/one" "$key-$(xxh64 "$work/one").archive"
done
count 16
starts all 0
count 1
starts 0 0

# Folders that cannot be written, and files that cannot.
rm "$ZINC_METAL_CACHE"/*
starts all 0 --inject=serialize:1
count 0
ZINC_METAL_CACHE=/proc/nowhere starts all 0
ZINC_METAL_CACHE=none starts all 0
count 0
finish
