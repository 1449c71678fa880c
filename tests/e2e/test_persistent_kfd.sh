#!/usr/bin/env bash
# A persistent plan on an AMD card gives the bits of replay: families that between them have every kernel of a row's step, on the
# hardware model, whose work-groups go on in a drawn order; a plan that may not find room there says so, and replay runs.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc")
need_amdsim
export ZINC_KFD_TIMEOUT=60
export -n ZINC_TIER

# same WHAT TIER SIM-OPTIONS
same()
{
    local what=$1 tier=$2
    shift 2
    out=$($amdsim "$@" "$zinc" validate -m "$work/m.gguf" --tier "$tier" --plan persistent --against "$tier:replay" --prompt-tokens 5,6,7 \
        -n 1 --ctx 32 --tol 1e-30 2>&1) || miss "$what: $(tail -n 2 <<<"$out")"
    grep -q '^equal: .*; nmse: median 0, worst 0 ' <<<"$out" || miss "$what: $out"
    printf '%-28s %s\n' "$what" "$(tail -n 1 <<<"$out")"
}
families="qwen3-ragged qwen35moe gemma3n gemma4-e gpt-oss"
strict=qwen35moe # expert numbers are read by scalar loads, rows by vector loads: a cache that was not emptied is seen
case $build in */sanitize) families=gpt-oss strict= ;; esac # the model of the card is slow there
gpu=gfx1201
for f in $families; do
    t=$(types "$f")
    make_model "$f" "${t%% *}" "$work/m.gguf" || continue
    opts=(--gpu $gpu)
    [ "$f" != "$strict" ] || opts+=(--strict)
    same "$f, ${opts[*]:1}" kfd "${opts[@]}"
    case $gpu in gfx1201) gpu=gfx1100 ;; *) gpu=gfx1201 ;; esac
done
case $build in */sanitize) finish ;; esac
# Another process on the card: a line, and replay; validate ends with it.
words="kfd: 1 other process has the card (/sys/class/kfd/kfd/proc), .*; --plan=replay"
$amdsim --gpu gfx1201 --inject second-process "$zinc" run -m "$work/m.gguf" --tier kfd --plan persistent --prompt-tokens 1,2 -n 1 --ctx 32 \
    --print-tokens >"$work/out" 2>&1 || miss "a second process: $(tail -n 1 "$work/out")"
grep -q "$words, which is taken" "$work/out" || miss "a second process: $(cat "$work/out")"
$amdsim --gpu gfx1201 --inject second-process "$zinc" validate -m "$work/m.gguf" --tier kfd --plan persistent --against cpu -n 1 \
    >"$work/out" 2>&1 && miss "validate beside a second process"
grep -q "$words" "$work/out" || miss "validate beside a second process: $(cat "$work/out")"
$amdsim --gpu gfx1201 "$zinc" bench "$work/m.gguf" --tier kfd --plan persistent -p 0 -n 2 -r 1 >"$work/out" 2>&1 ||
    miss "bench: $(tail -n 1 "$work/out")"

# --plan auto, and the card is reset while the persistent plan is tried: four steps of replay before it are some 96 dispatches. umq opens
# the device again and replays; with kfd the next start does. Both know of it from then on.
make_model qwen3 Q4_K_M "$work/m.gguf"
cd "$work" || exit 1 # reports of the reset go here
for tier in umq kfd; do
    "$amdsim" "$zinc" check 2>/dev/null | grep "^tier *$tier " | grep -q yes || continue
    "$amdsim" --gpu gfx1201 --reset 102 "$zinc" run m.gguf --tier $tier --plan auto --prompt-tokens 1,2 -n 2 --ctx 64 --temp 0 \
        --print-tokens >out 2>&1
    rc=$?
    case $tier in umq) words="replay is taken" ;; *) words="the next start takes replay" ;; esac
    grep -q "that was a trial of the persistent plan, $words" out || miss "$tier, reset in the trial: $(cat out)"
    [ $rc -eq "$([ $tier = umq ] && echo 0 || echo 1)" ] || miss "$tier, reset in the trial: status $rc"
    "$amdsim" --gpu gfx1201 "$zinc" check m.gguf --tier $tier --ctx 64 >out 2>&1
    grep -q 'plan replay (the persistent plan failed when it was tried' out || miss "$tier, after the reset: $(grep '^runs' out)"
done
finish
