#!/usr/bin/env bash
# The kfd tier's own tests on the hardware model: what a step costs the host, and what a fault tells.
. tests/e2e/lib.sh
need_amdsim
model=$work/long.gguf
costs="gfx1201 gfx1100"
case $build in */sanitize) costs= ;; esac # of sanitizers nobody wants to know
[ -z "$costs" ] || make_model qwen35moe Q4_K_M "$model" --layers 40 || finish
for gpu in $costs; do
    ZINC_KFD_UNCHECKED=1 $amdsim --gpu $gpu --skip-execution "$build/tests/e2e/test_amd_steps" kfd cost "$model" \
        >"$work/out" 2>&1 || miss "steps on $gpu: $(tail -n 3 "$work/out" | tr '\n' ' ')"
    grep 'dwords' "$work/out"
done
make_model llama Q8_0 "$work/m.gguf" || finish
for gpu in gfx1201 gfx1100; do
    $amdsim --gpu $gpu "$build/tests/e2e/test_amd_steps" kfd trouble >"$work/out" 2>&1 ||
        miss "trouble on $gpu: $(tail -n 5 "$work/out" | tr '\n' ' ')"
    tail -n 1 "$work/out"
    KFD_TEST_MODEL=$work/m.gguf $amdsim --gpu $gpu --deadlock-ms 500 "$build/tests/e2e/test_kfd_faults" >"$work/out" 2>&1 ||
        miss "faults on $gpu: $(tail -n 5 "$work/out" | tr '\n' ' ')"
    tail -n 1 "$work/out"
done
rm -rf "${TMPDIR:-/tmp}"/zinc-kfd-??????
finish
