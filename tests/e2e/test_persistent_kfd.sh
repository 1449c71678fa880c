#!/usr/bin/env bash
# A persistent plan on an AMD card gives the bits of replay: families that between them have every kernel of a row's step, on the
# hardware model, whose work-groups go on in a drawn order and are preempted; a plan that finds no room there says so, and replay runs.
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
        -n 2 --ctx 32 --tol 1e-30 2>&1) || miss "$what: $(tail -n 2 <<<"$out")"
    grep -q '^equal: .*; nmse: median 0, worst 0 ' <<<"$out" || miss "$what: $out"
    printf '%-28s %s\n' "$what" "$(tail -n 1 <<<"$out")"
}
families="qwen3-ragged qwen35moe gemma4-e gpt-oss"
case $build in */sanitize) families="qwen35moe gpt-oss" ;; esac
gpu=gfx1201
for f in $families; do
    t=$(types "$f")
    make_model "$f" "${t%% *}" "$work/m.gguf" || continue
    same "$f, $gpu" kfd --gpu $gpu
    case $gpu in gfx1201) gpu=gfx1100 ;; *) gpu=gfx1201 ;; esac
done
finish
