#!/usr/bin/env bash
# The cs tier on the hardware model: small models on every chip beside the cpu tier, launched one by one, without a large
# PCIe window, under the model's strict checks; what a step costs; and one clear line for each way in which a machine or a
# card can refuse.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc") mkmodel=$(realpath "$mkmodel") # some of it runs in another folder
need_amdsim
case $("$amdsim" "$zinc" check 2>/dev/null | grep '^tier *cs ') in *yes*) ;; *) skip "no cs tier in this build" ;; esac
export ZINC_KFD_TIMEOUT=120
export -n ZINC_TIER
prompt=$(ids 40 3) n=4 # in three chunks
chips="gfx1201 gfx1200 gfx1151 gfx1100"
case $build in */sanitize) prompt=$(ids 24 3) n=2 chips="gfx1201 gfx1100" ;; esac # in two, a whole one and a part; one of each generation
m=$work/m.gguf
make_model llama Q8_0 "$m" || finish

# agree WHAT SIM-OPTIONS -- ZINC-OPTIONS
agree()
{
    local what=$1 opts=()
    shift
    while [ "$1" != -- ]; do opts+=("$1"); shift; done
    shift
    $amdsim "${opts[@]}" "$zinc" validate -m "$m" --prompt-tokens "$prompt" -n $n --ctx 64 --chunk 16 --tol 3e-3 "$@" \
        >"$work/out" 2>&1 || miss "$what: $(tail -n 2 "$work/out" | tr '\n' ' ')"
    printf '%-22s %s\n' "$what" "$(tail -n 1 "$work/out")"
}
for gpu in $chips; do
    agree $gpu --gpu $gpu -- --tier cs --against cpu
done
for gpu in gfx1101 gfx1103; do # their graphics cores are called otherwise: GC 11.0.3 and 11.0.1
    $amdsim --gpu $gpu "$zinc" run -m "$m" --prompt-tokens 1,2 -n 1 --ctx 64 --tier cs >"$work/out" 2>&1
    grep -q "($gpu, " "$work/out" || miss "$gpu is taken for another: $(head -n 1 "$work/out")"
done
agree "one by one" --gpu gfx1201 -- --tier cs:check --against cs
agree "small BAR" --gpu gfx1201 --small-bar -- --tier cs --against cpu
make_model qwen35moe Q8_0 "$work/moe.gguf" && m=$work/moe.gguf # the one with launches that overlap
agree "strict, overlapping" --gpu gfx1201 --strict -- --tier cs --against cpu
ZINC_AMD_BARRIER=1 agree "strict, fences" --gpu gfx1201 --strict -- --tier cs --against cpu
agree "strict, gfx1100" --gpu gfx1100 --strict -- --tier cs --against cpu
make_model llama Q8_0 "$work/deep.gguf" --layers 10 && m=$work/deep.gguf # 104 launches for 16 rows: two submissions
agree "in parts" --gpu gfx1201 -- --tier cs --against cpu
agree "in parts, gfx1100" --gpu gfx1100 -- --tier cs --against cpu
m=$work/m.gguf

# refuses WHAT WORDS SIM-OPTIONS: the line
refuses()
{
    local what=$1 words=$2
    shift 2
    $amdsim --gpu gfx1201 "$@" "$zinc" run -m "$m" --prompt-tokens 1,2 -n 1 --ctx 64 --print-tokens --tier cs \
        >"$work/out" 2>&1 && miss "$what: it ran"
    grep -q -- "$words" "$work/out" || miss "$what: no '$words' in: $(cat "$work/out")"
    printf '%-22s %s\n' "$what" "$(grep -- "$words" "$work/out" | tail -n 1)"
}
cd "$work" || exit 1 # where reports go
refuses eacces "usermod -aG render" --inject eacces
refuses old-kernel "driver is 3.42, zinc needs 3.54" --inject old-kernel
refuses unsupported-chip "gfx1030 is not one of" --inject unsupported-chip
refuses vram-enomem "0 MiB free of 30576" --inject vram-enomem
refuses no-kernel-queues "amdgpu.user_queue=2" --inject no-kernel-queues
ZINC_KFD_TIMEOUT=1 refuses "hang, no time limit" "no progress for 1 s" --inject hang
ls -d zinc-report-* >/dev/null || miss "hang: no report"
refuses "hang, time limit" "the GPU was reset: a submission of ours" --inject hang --lockup-ms 200
refuses "a wave that hangs" "the GPU was reset: a submission of ours" --hang-insts 20
grep -q 'guilty 1' zinc-report-*/report.txt || miss "no report says that the context is guilty"
grep -q 'amdgpu.lockup_timeout=200' zinc-report-*/report.txt || miss "no report has the driver's parameters"
if [ ! -e /dev/dri ]; then
    "$zinc" run -m "$m" --prompt-tokens 1,2 -n 1 --tier cs >"$work/out" 2>&1 && miss "no card: it ran"
    grep -q 'no AMD render node in /dev/dri' "$work/out" || miss "no card: $(cat "$work/out")"
fi
$amdsim --gpu gfx1201 --vram 64M "$zinc" run -m "$m" --tier cs --prompt-tokens 1,2 -n 1 --ctx 1000000 --print-tokens \
    >"$work/out" 2>&1 && miss "64 MiB of VRAM: it ran"
tail -n 1 "$work/out"

# Without /dev/kfd the card is there all the same.
$amdsim --inject no-kfd "$zinc" run -m "$m" --prompt-tokens 1,2 -n 1 --ctx 64 --tier cs --print-tokens >"$work/out" 2>&1 ||
    miss "without /dev/kfd: $(tail -n 1 "$work/out")"

# What a step costs, and what goes wrong below the tier.
case $build in
*/sanitize) ;; # of sanitizers nobody wants to know
*)
    make_model qwen35moe Q4_K_M "$work/long.gguf" --layers 40 || finish
    for gpu in gfx1201 gfx1100; do
        ZINC_KFD_UNCHECKED=1 $amdsim --gpu $gpu --skip-execution \
            "$build/tests/e2e/test_amd_steps" cs cost "$work/long.gguf" >"$work/out" 2>&1 || miss "cost on $gpu: $(tail -n 3 "$work/out" | tr '\n' ' ')"
        grep 'dwords' "$work/out"
    done
    ;;
esac
for gpu in gfx1201 gfx1100; do
    $amdsim --gpu $gpu "$build/tests/e2e/test_amd_steps" cs trouble >"$work/out" 2>&1 ||
        miss "trouble on $gpu: $(tail -n 5 "$work/out" | tr '\n' ' ')"
    tail -n 1 "$work/out"
done
finish
