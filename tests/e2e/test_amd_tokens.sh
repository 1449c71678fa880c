#!/usr/bin/env bash
# The AMD tiers on the model of a card choose the cpu tier's tokens, of the families and weight types that matter, on
# RDNA4 and RDNA3: on kfd 64 of them for one type of each family, whose caches grow to 84 rows, and 16 for the others, whose products
# alone are different; by the other two ways, and of the families that have no kernels of their own, 16 on one card or the other.
# The whole binary runs: files, ioctls, packets, machine code. AMD_ALL=1: every family by every way on both cards, 64 tokens each,
# some five minutes of a processor.
. tests/e2e/lib.sh
case $build in */sanitize | */debug) skip "the release build runs it; here the ladder does" ;; esac
need_amdsim
prompt=$(ids 20 3)
# Sums in another order round to other int8 inputs now and then. Measured: at most 1.03e-3 (gpt-oss
# Q8_0 on gfx1100), 9.0e-4 without experts (qwen3); the same in every run, for the cards are software.
tol=3e-3

one() # GPU FAMILY TYPE [TIER AGAINST]
{
    local out tier=${4:-kfd} against=${5:-cpu}
    out=$("$amdsim" --gpu "$1" "$zinc" validate -m "$work/$2-$3.gguf" --tier $tier --against $against -n "$n" \
        --prompt-tokens "$prompt" --ctx 128 --tol $tol 2>&1 | tail -n 1)
    case $out in equal:*) ;; *) miss "$1 $2 $3 on $tier: $out" ;; esac
    printf '%-8s %-10s %-11s %-4s %s\n' "$1" "$2" "$3" "$tier" "$out"
}

has() { "$amdsim" "$zinc" check 2>/dev/null | grep "^tier *$1 " | grep -q yes; }
ways=kfd
for way in umq cs; do
    has $way && ways+=" $way"
done

if [ -n "${AMD_ALL:-}" ]; then
    n=${AMD_TOKENS:-64}
    for f in $families gemma4; do
        t=$(types "$f" | cut -d' ' -f1)
        [ "$f" != gemma4-moe ] || t=Q8_0 # in Q4_K_M two experts of a token lie closer than the error, on lockstep as well
        make_model "$f" "$t" "$work/m.gguf" || continue
        mv "$work/m.gguf" "$work/$f-$t.gguf"
        for g in gfx1201 gfx1100; do
            for way in $ways; do
                one $g "$f" "$t" $way
            done
        done
        rm "$work/$f-$t.gguf"
    done
    finish
fi

for f in ${AMD_FAMILIES:-llama qwen3 qwen3moe qwen35moe gpt-oss}; do
    n=${AMD_TOKENS:-64}
    for t in $(echo Q4_K_M $(types "$f") | tr ' ' '\n' | sort -u); do
        make_model "$f" "$t" "$work/$f-$t.gguf" || continue
        for g in ${AMD_GPUS:-gfx1201 gfx1100}; do
            one "$g" "$f" "$t"
        done
        n=${AMD_TOKENS:-16}
    done
done

# Numbers beside all matrices, those of experts included; in gpt-oss biases follow them.
for f in qwen3moe gpt-oss; do
    make_model $f NVFP4 "$work/$f-NVFP4.gguf" --expert-scales && n=4 one ${AMD_GPUS:-gfx1201} $f NVFP4
done

# The same kernels by the other ways into the driver: one type of each family on each card, by one way or the other. Then the other
# families, one way and one card each.
n=${AMD_TOKENS:-16}
others=(${ways#kfd}) i=0
for f in ${AMD_FAMILIES:-llama qwen3 qwen3moe qwen35moe gpt-oss}; do
    for g in ${AMD_GPUS:-gfx1201 gfx1100}; do
        [ ${#others[@]} -eq 0 ] || [ ! -f "$work/$f-Q8_0.gguf" ] || one "$g" "$f" Q8_0 ${others[i++ % ${#others[@]}]}
    done
    i=$((i + 1))
done
ways=($ways) gpus=(${AMD_GPUS:-gfx1201 gfx1100}) i=0
[ -n "${AMD_FAMILIES:-}" ] || for f in qwen3next gemma3 gemma4-moe gemma4-e; do
    make_model "$f" Q8_0 "$work/$f-Q8_0.gguf" && one ${gpus[i / 2 % ${#gpus[@]}]} "$f" Q8_0 ${ways[i % ${#ways[@]}]}
    i=$((i + 1))
done
finish
