#!/usr/bin/env bash
# The kfd tier on the hardware model, beside the cpu tier: small models on every chip, launched one by one, without a
# large PCIe window, under the model's strict checks; and one clear line for each way in which a machine can refuse.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc") # some of it runs in another folder
need_amdsim
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
chips="gfx1201 gfx1200 gfx1151 gfx1150 gfx1103 gfx1102 gfx1101 gfx1100"
case $build in */sanitize) chips="gfx1201 gfx1150 gfx1100" ;; esac # one of each generation
for gpu in $chips; do
    $amdsim --gpu $gpu "$zinc" check --tier kfd 2>&1 | grep -q "no kernels for" && echo "$gpu: not in this build" && continue
    agree $gpu --gpu $gpu -- --tier kfd --against cpu
done
agree "one by one" --gpu gfx1201 -- --tier kfd:check --against kfd
agree "small BAR" --gpu gfx1201 --small-bar -- --tier kfd --against cpu
agree "strict" --gpu gfx1201 --strict -- --tier kfd --against cpu
agree "strict, gfx1100" --gpu gfx1100 --strict -- --tier kfd --against cpu
make_model qwen35moe Q8_0 "$work/moe.gguf" && m=$work/moe.gguf # the one with launches that overlap
agree "strict, overlapping" --gpu gfx1201 --strict -- --tier kfd --against cpu
m=$work/m.gguf
agree "older sysfs" --gpu gfx1201 --inject no-cwsr-keys -- --tier kfd --against cpu
agree "signals" --gpu gfx1201 --inject eintr -- --tier kfd --against cpu

# refuses INJECTION WORDS: the line, and that auto goes on with another tier
refuses()
{
    local inject=$1 words=$2 run=("$zinc" run -m "$m" --prompt-tokens 1,2 -n 1 --ctx 64 --print-tokens)
    export ZINC_KFD_TIMEOUT=1
    $amdsim --gpu gfx1201 --inject "$inject" "${run[@]}" --tier kfd >"$work/out" 2>&1 && miss "$inject: it ran"
    grep -q -- "$words" "$work/out" || miss "$inject: no '$words' in: $(cat "$work/out")"
    ZINC_AUTO=measure $amdsim --gpu gfx1201 --inject "$inject" "${run[@]}" --tier auto >"$work/auto" 2>&1 ||
        miss "$inject, auto: $(tail -n 1 "$work/auto")"
    grep -qE "on (umq|cs|cpu)," "$work/auto" || miss "$inject, auto: $(cat "$work/auto")"
    case $inject in
    no-kfd | unsupported-chip) ;; # as on any machine without such a card
    *) grep -q "tier kfd .*$words" "$work/auto" || miss "$inject: auto does not say '$words': $(cat "$work/auto")" ;;
    esac
    printf '%-22s %s\n' "$inject" "$(grep -- "$words" "$work/out" | head -n 1)"
}
cd "$work" || exit 1 # where the report of the hang goes
refuses no-kfd "no AMD compute driver"
refuses eacces "usermod -aG render"
refuses old-kernel "interface is 1.5, zinc needs 1.14; for gfx.* that is Linux 6"
refuses unsupported-chip "gfx1030 is not one of"
refuses vm-busy "already in use"
refuses queue-enomem "no compute queue left"
refuses vram-enomem "MiB free of"
refuses hang "no progress for 1 s"
ls -d zinc-report-* >/dev/null || miss "hang: no report"

# A wave that hangs: the kernel resets the card and says so; before Linux 6.8 without a word on what it was.
for kernel in 6.18 6.7; do
    words="the GPU was reset"
    [ $kernel = 6.18 ] || words="a hardware exception, of which this kernel tells no more"
    ZINC_KFD_TIMEOUT=60 $amdsim --gpu gfx1100 --kernel-version $kernel --hang-insts 20 "$zinc" run -m "$m" --tier kfd \
        --prompt-tokens 1,2 -n 1 --ctx 64 --print-tokens >"$work/out" 2>&1 && miss "hang, Linux $kernel: it ran"
    grep -q "$words" "$work/out" || miss "hang, Linux $kernel: no '$words' in: $(cat "$work/out")"
    printf '%-22s %s\n' "hang, Linux $kernel" "$(grep -- "$words" "$work/out" | head -n 1)"
done

$amdsim --gpu gfx1201 --vram 64M "$zinc" run -m "$m" --tier kfd --prompt-tokens 1,2 -n 1 --ctx 1000000 --print-tokens \
    >"$work/out" 2>&1 && miss "64 MiB of VRAM: it ran"
tail -n 1 "$work/out"
finish
