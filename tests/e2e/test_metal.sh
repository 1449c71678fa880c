#!/usr/bin/env bash
# The metal tier on build/metalsim (doc/metalsim.md): the tokens of the cpu tier in every family, in whatever order launches
# between two barriers run; what a step costs; and one line for each thing that can be wrong with a Mac.
# Tolerances: as in test_kernels_tokens.sh, whose kernels these are.
. tests/e2e/lib.sh
case $build in */*) skip "the release build runs it: the kernels' Metal texts are not built for sanitizers" ;; esac
[ -e $build/libmetalsim.so ] || skip "no $build/libmetalsim.so in this build"
prompt=$(ids 11 3)
export ZINC_METAL_CACHE=$work/cache
sim() { timeout 300 $build/metalsim "$@"; }

agree() # FAMILY TYPE TOLERANCE OPTIONS...: of $work/m.gguf
{
    local f=$1 t=$2 tol=$3
    shift 3
    [ "$f/$t" = gemma4-moe/F32 ] || [ "$f" != gemma4-moe ] || tol=1e-2
    sim "$@" "$zinc" validate -m "$work/m.gguf" --tier metal --against cpu --prompt-tokens "$prompt" -n 2 --ctx 64 --chunk 16 \
        --tol $tol >"$work/out" 2>&1 || miss "$f $t $*: $(tail -n 2 "$work/out" | tr '\n' ' ')"
    printf '%-13s %-12s %s\n' "$f" "$t" "$(tail -n 1 "$work/out")"
}
for f in $families; do
    t=$(types "$f" | cut -d ' ' -f 1)
    make_model "$f" "$t" "$work/m.gguf" || continue
    agree "$f" "$t" 3e-3 --shuffle
done
make_model qwen35moe Q8_0 "$work/m.gguf" && ZINC_METAL_ENCODE=once agree qwen35moe Q8_0 3e-3 --shuffle
make_model qwen3 F32 "$work/m.gguf" && agree qwen3 F32 1e-5
make_model qwen3 F16 "$work/m.gguf" && agree qwen3 F16 1e-3 # bf16 in prompts
make_model llama-moe IQ1_M "$work/m.gguf" && agree llama-moe IQ1_M 3e-3
make_model qwen3moe NVFP4 "$work/m.gguf" --expert-scales && agree qwen3moe NVFP4 3e-3 # numbers beside all matrices
make_model gpt-oss NVFP4 "$work/m.gguf" --expert-scales && agree gpt-oss NVFP4 3e-3 # which biases follow

# Prompts cut otherwise give the same bits: heads of 256 and 512, whose prompts share a head among warps, and of 64.
for f in gemma4 llama; do
    make_model $f Q8_0 "$work/m.gguf" || continue
    for chunk in 16 4; do
        sim "$zinc" run -m "$work/m.gguf" --tier metal --prompt-tokens "$prompt" -n 2 --temp 0 --ctx 64 --chunk $chunk 2>&1 >/dev/null |
            grep -o 'logits=[0-9a-f]*' >"$work/chunk$chunk" || miss "$f in chunks of $chunk: no logits"
    done
    cmp -s "$work/chunk16" "$work/chunk4" || miss "$f: chunks of 16 $(cat "$work/chunk16"), of 4 $(cat "$work/chunk4")"
done

# A token makes a command buffer and an encoder, and no other object (the two names of classes and pools aside).
make_model qwen3 Q8_0 "$work/m.gguf"
cost() # TOKENS: objects, command buffers
{
    sim --stats "$zinc" run -m "$work/m.gguf" --tier metal --prompt-tokens "$prompt" -n "$1" --temp 0 --ctx 64 2>&1 >/dev/null |
        sed -n 's/.*objects \([0-9]*\), command buffers \([0-9]*\),.*/\1 \2/p'
}
read -r o1 b1 <<<"$(cost 4)"
read -r o2 b2 <<<"$(cost 12)"
[ -n "$b2" ] && [ $((o2 - o1)) -eq $((2 * (b2 - b1))) ] && [ "$b2" -gt "$b1" ] ||
    miss "8 more tokens: $((o2 - o1)) objects for $((b2 - b1)) command buffers"

# Recorded once, a token is a few messages.
messages() # TOKENS
{
    ZINC_METAL_ENCODE=once sim --stats "$zinc" run -m "$work/m.gguf" --tier metal --prompt-tokens "$prompt" -n "$1" --temp 0 --ctx 64 2>&1 >/dev/null |
        sed -n 's/.*messages \([0-9]*\),.*/\1/p'
}
m1=$(messages 4) m2=$(messages 12)
[ -n "$m2" ] && [ $((m2 - m1)) -lt 600 ] || miss "recorded: 8 more tokens took $((m2 - m1)) messages"
echo "8 tokens more, recorded: $((m2 - m1)) messages"
last=$("$zinc" ladder --tier=metal --list | grep -c '^ *[0-9]')
sim --overlap "$zinc" ladder --tier=metal -m models/zinc-demo.gguf -n 2 --filter matmul/wide --report "$work/ladder.txt" >"$work/out" 2>&1 ||
    miss "ladder: $(grep -A1 FAILED "$work/out" | tr '\n' ' ')"
[ "$(grep -cE '^ *[0-9]+ .* ok ' "$work/out")" -eq $((last - 1)) ] || miss "ladder: of $last rungs $(grep -cE ' ok ' "$work/out") hold"
grep -qE '^ *[0-9]+ +persistent plan +skipped' "$work/out" || miss "ladder: the persistent plan is not skipped"
sim --macos=14 "$zinc" ladder --tier=metal >"$work/out" 2>&1 && miss "the ladder holds on macOS 14"
grep -q 'macOS is too old' "$work/out" || miss "ladder on macOS 14: $(head -n 4 "$work/out" | tr '\n' ' ')"

# says WHY OPTIONS...: the tier refuses, or a run fails, in one line with these words
says()
{
    local why=$1
    shift
    ! sim "$@" "$zinc" run -m "$work/m.gguf" --tier metal --prompt-tokens "$prompt" -n 4 --ctx 64 >"$work/out" 2>&1 || miss "$*: it ran"
    grep -q "metal: .*$why" "$work/out" || miss "$*: not '$why': $(tail -n 2 "$work/out" | tr '\n' ' ')"
}
! "$zinc" run -m "$work/m.gguf" --tier metal -n 1 --prompt-tokens "$prompt" >"$work/out" 2>&1 || miss "metal ran without Metal"
grep -q 'metal: there is no Metal here' "$work/out" || miss "without Metal: $(tail -n 1 "$work/out")"
says 'gives this program no GPU' --no-device
says 'this macOS is too old .*macOS 15' --macos=14
sim --macos=14 "$zinc" run -m "$work/m.gguf" --tier auto --prompt-tokens "$prompt" -n 1 --ctx 64 2>&1 >/dev/null |
    grep -q ' on cpu' || miss "auto does not go on to the cpu on macOS 14"
says 'Caused GPU Timeout Error' --inject=timeout:4
says 'Insufficient Memory' --inject=memory:3
! sim --memory=0.001 "$zinc" run -m "$work/m.gguf" --tier metal -n 1 --prompt-tokens "$prompt" >"$work/out" 2>&1 || miss 'it ran in 1 MiB'
grep -q 'Apple M1 has 0.00 GiB free' "$work/out" || miss "1 MiB: $(tail -n 1 "$work/out")"
sim --no-device "$zinc" check >"$work/out" 2>&1
grep -q '^tier *metal *no .*no GPU' "$work/out" || miss "check without a GPU: $(grep metal "$work/out")"
sim --chip=m3 "$zinc" check >"$work/out" 2>&1
grep -q '^tier *metal *yes *Apple M3' "$work/out" || miss "check on an M3: $(grep metal "$work/out")"
finish
