#!/usr/bin/env bash
# The umq tier on the hardware model, beside the cpu tier: small models, launched one by one, under the model's strict
# checks, without a large PCIe window and without the kernel's rings; what a step costs the host; and one clear line for
# each way in which a machine can refuse, or a queue can stop.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc") # some of it runs in another folder
need_amdsim
"$zinc" check 2>/dev/null | grep -q '^tier *umq ' || skip "built without libdrm_amdgpu's headers"
export ZINC_KFD_TIMEOUT=120
export -n ZINC_TIER
prompt=$(ids 11 3)
m=$work/m.gguf
make_model llama Q8_0 "$m" || finish

# agree WHAT SIM-OPTIONS -- ZINC-OPTIONS
agree()
{
    local what=$1 opts=()
    shift
    while [ "$1" != -- ]; do opts+=("$1"); shift; done
    shift
    # prompts have bf16 inputs where the cpu tier has int8
    $amdsim "${opts[@]}" "$zinc" validate -m "$m" --prompt-tokens "$prompt" -n 4 --ctx 64 --chunk 16 --tol 3e-3 "$@" \
        >"$work/out" 2>&1 || miss "$what: $(tail -n 2 "$work/out" | tr '\n' ' ')"
    printf '%-22s %s\n' "$what" "$(tail -n 1 "$work/out")"
}
for gpu in gfx1201 gfx1200 gfx1100; do
    agree $gpu --gpu $gpu -- --tier umq --against cpu
done
agree "one by one" --gpu gfx1201 -- --tier umq:check --against umq
agree "small BAR" --gpu gfx1201 --small-bar -- --tier umq --against cpu
agree "strict" --gpu gfx1201 --strict -- --tier umq --against cpu
ZINC_AMD_BARRIER=1 agree "strict, fences" --gpu gfx1100 --strict -- --tier umq --against cpu
agree "strict, gfx1100" --gpu gfx1100 --strict -- --tier umq --against cpu
agree "no kernel rings" --gpu gfx1201 --user-queues only -- --tier umq --against cpu
agree "Linux 6.16" --gpu gfx1100 --kernel-version 6.16 -- --tier umq --against cpu
agree "beside kfd" --gpu gfx1201 -- --tier umq --against kfd
families="qwen35moe:UD_Q4_K_XL qwen3:Q4_K_M gpt-oss:MXFP4_MOE"
case $build in */sanitize) families= ;; esac # the host does nothing else for them; tokens are the release build's to show
for f in $families; do
    make_model "${f%:*}" "${f#*:}" "$work/f.gguf" && m=$work/f.gguf
    for gpu in gfx1201 gfx1100; do
        agree "${f%:*}, $gpu" --gpu $gpu --strict -- --tier umq --against cpu
    done
done
m=$work/m.gguf

case $build in
*/sanitize) ;; # of sanitizers nobody wants to know
*)
    make_model qwen35moe Q4_K_M "$work/long.gguf" --layers 40 || finish
    for gpu in gfx1201 gfx1100; do
        ZINC_KFD_UNCHECKED=1 $amdsim --gpu $gpu --skip-execution "$build/tests/e2e/test_amd_steps" umq cost "$work/long.gguf" \
            >"$work/out" 2>&1 || miss "cost on $gpu: $(tail -n 3 "$work/out" | tr '\n' ' ')"
        grep 'dwords' "$work/out"
    done
    ;;
esac
for sim in "--gpu gfx1201" "--gpu gfx1100" "--gpu gfx1201 --kernel-version 6.17"; do # before 6.18 nobody resets a queue
    $amdsim $sim "$build/tests/e2e/test_amd_steps" umq trouble >"$work/out" 2>&1 ||
        miss "trouble, $sim: $(tail -n 3 "$work/out" | tr '\n' ' ')"
    tail -n 1 "$work/out"
done

$amdsim --kernel-version 7.0 --lockup-ms 3000 "$build/tests/e2e/test_amd_steps" umq backlog >"$work/out" 2>&1 ||
    miss "a backlog longer than the driver's limit: $(tail -n 3 "$work/out" | tr '\n' ' ')"

# refuses WHAT SIM-OPTIONS -- WORDS: the line
refuses()
{
    local what=$1 opts=() run=("$zinc" run -m "$m" --prompt-tokens 1,2 -n 1 --ctx 64 --print-tokens)
    shift
    while [ "$1" != -- ]; do opts+=("$1"); shift; done
    ZINC_KFD_TIMEOUT=1 $amdsim "${opts[@]}" "${run[@]}" --tier umq >"$work/out" 2>&1 && miss "$what: it ran"
    grep -q -- "$2" "$work/out" || miss "$what: no '$2' in: $(cat "$work/out")"
    printf '%-22s %s\n' "$what" "$(grep -- "$2" "$work/out" | head -n 1)"
}
cd "$work" || exit 1 # where reports go
# without compute rings and /dev/kfd it is the only way to the card, and auto takes it
$amdsim --inject no-kfd --user-queues only "$zinc" run -m "$m" --prompt-tokens 1,2 -n 1 --ctx 64 --print-tokens >"$work/auto" 2>&1
grep -q "on umq" "$work/auto" || miss "auto: $(cat "$work/auto")"
refuses "switched off" --user-queues off -- "amdgpu.user_queue is -1): start the kernel with amdgpu.user_queue=1"
refuses "gfx1151" --gpu gfx1151 -- "no user-mode queues for gfx1151"
refuses "gfx1103" --gpu gfx1103 -- "no user-mode queues for gfx1103"
refuses "old kernel" --kernel-version 6.15 -- "amdgpu driver is 3.59, user-mode queues came with 3.64"
refuses "old MEC firmware" --firmware mec=3049 -- "the MEC firmware of gfx1201 is version 3049, the driver wants 3050"
refuses "old MES firmware" --gpu gfx1100 --firmware mes=119 -- "the MES firmware of gfx1100 is version 119, the driver wants 120"
refuses "eacces" --inject eacces -- "usermod -aG render"
refuses "little memory" --vram 1M -- "GiB free"
refuses "a queue that hangs" --inject hang -- "no progress for 1 s"
ls -d zinc-report-* >/dev/null 2>&1 || miss "hang: no report"
refuses "a wave that hangs" --gpu gfx1100 --hang-insts 20 -- "the driver reset the queue"
finish
