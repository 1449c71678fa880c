#!/usr/bin/env bash
# The GPU kernels, run on the host in lock step, choose the tokens that the cpu tier chooses, in every family: the prompt
# runs the kernels for prompts, the tokens after it those for decoding. A few families do so on Hopper's kernels as well
# (lockstep:sm90), with prompts of each class of rows: a few, some dozens, hundreds.
# Tolerances: sums in another order round now and then to another f16 in the cache, and then to other int8 inputs,
# which the layers behind amplify; prompts have bf16 inputs where the cpu tier has int8. Gemma 4 norms the sum of its
# experts: one that was chosen by a hair changes all of it. The op table holds single commands to tight limits.
. tests/e2e/lib.sh
case $build in */sanitize | */debug) skip "the release build runs it; here the op table does" ;; esac
prompt=$(ids 11 3)

# agree FAMILY TYPE CHUNK TOLERANCE: of $work/m.gguf
agree()
{
    local tol=$4
    [ "$1/$2" = gemma4-moe/F32 ] || [ "$1" != gemma4-moe ] || tol=1e-2
    "$zinc" validate -m "$work/m.gguf" --tier lockstep --against cpu --prompt-tokens "$prompt" -n 2 --ctx 64 \
        --chunk "$3" --tol $tol >"$work/out" 2>&1 ||
        miss "$1 $2, chunks of $3: $(tail -n 2 "$work/out" | tr '\n' ' ')"
    printf '%-13s %-12s %-3s %s\n' "$1" "$2" "$3" "$(tail -n 1 "$work/out")"
}

for f in $families; do
    make_model "$f" F32 "$work/m.gguf" && agree "$f" F32 16 1e-5
    t=$(types "$f" | cut -d ' ' -f 1)
    make_model "$f" "$t" "$work/m.gguf" || continue
    agree "$f" "$t" 16 3e-3
done
# types that have kernels for few rows alone, which prompts take opened; the first with numbers beside all of its matrices
make_model qwen3moe NVFP4 "$work/m.gguf" --expert-scales && agree qwen3moe NVFP4 16 3e-3
make_model gpt-oss NVFP4 "$work/m.gguf" --expert-scales && agree gpt-oss NVFP4 16 3e-3 # which biases follow
make_model qwen3 IQ3_S "$work/m.gguf" && agree qwen3 IQ3_S 16 3e-3
make_model llama-moe IQ1_M "$work/m.gguf" && agree llama-moe IQ1_M 16 3e-3

# hopper FAMILY TYPE PROMPT...: prompts of so many tokens, each in one step
hopper()
{
    local family=$1 type=$2 n
    shift 2
    make_model "$family" "$type" "$work/m.gguf" || return
    for n in "$@"; do
        "$zinc" validate -m "$work/m.gguf" --tier lockstep:sm90 --against cpu --prompt-tokens "$(ids "$n" 3)" -n 2 --ctx 320 \
            --chunk 320 --tol 3e-3 >"$work/out" 2>&1 ||
            miss "$family $type on sm90, a prompt of $n: $(tail -n 2 "$work/out" | tr '\n' ' ')"
        printf '%-13s %-12s sm90, %-3s %s\n' "$family" "$type" "$n" "$(tail -n 1 "$work/out")"
    done
}
hopper llama3 Q4_K_M 5 40 300
hopper llama BF16 40
hopper gpt-oss MXFP4_MOE 5 40
finish
