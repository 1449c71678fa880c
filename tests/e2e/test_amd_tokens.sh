#!/usr/bin/env bash
# The kfd tier on the model of an AMD card chooses the cpu tier's tokens, of the families and weight types that matter, on
# RDNA4 and RDNA3: 64 of them for one type of each family, whose caches grow to 84 rows, and 16 for the others, whose products
# alone are different. The whole binary runs: files, ioctls, packets, machine code.
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

# The same kernels by the other way into the driver: one type of each family, and the cpu tier's tokens again.
if "$amdsim" "$zinc" check 2>/dev/null | grep '^tier *cs ' | grep -q yes; then
    n=${AMD_TOKENS:-16}
    for f in ${AMD_FAMILIES:-llama qwen3 qwen3moe qwen35moe gpt-oss}; do
        for g in ${AMD_GPUS:-gfx1201 gfx1100}; do
            [ ! -f "$work/$f-Q8_0.gguf" ] || one "$g" "$f" Q8_0 cs cpu
        done
    done
fi
finish
