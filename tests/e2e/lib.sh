# tests/e2e/lib.sh: what the tests of whole programs share; sourced from the repository's root with ZINC_BUILD set.
# A test reports each miss with `miss`, and ends with `finish`. Files go into $work, which is removed.
set -u
build=${ZINC_BUILD:-build}
zinc=$build/zinc
# Models are the same whichever build writes them; a build that is watched takes several times as long (unit/test_mkmodel runs its own).
mkmodel=build/mkmodel
[ -x $mkmodel ] || mkmodel=$build/mkmodel
compare=$build/tests/peer/compare_logits
work=$(mktemp -d "${TMPDIR:-/tmp}/zinc-e2e.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
misses=0
missed=
patience=300 # seconds: how long waits go on for what must come; only what never comes takes them
export ZINC_MODELS=$work/no-models # whoever runs this may have a default model
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know

# The families that this release runs (FAMILIES: others); `types FAMILY` are weight types beside F32 that fit it.
families="llama llama-moe llama3 qwen2 qwen3 qwen3-ragged qwen3moe qwen3next qwen35 qwen35moe gemma3 gemma3n gemma4-e gemma4-moe gpt-oss"
case $build in */sanitize) families="llama-moe llama3 qwen3-ragged qwen35moe gemma4-moe gpt-oss" ;; esac # slow, so fewer
families=${FAMILIES:-$families}
types()
{
    case $1 in
    gpt-oss) echo MXFP4_MOE Q8_0 ;;
    qwen35moe) echo UD_Q4_K_XL Q8_0 ;;
    *) echo Q4_K_M Q8_0 ;;
    esac
}

skip()
{
    echo "$*"
    exit 77
}
miss()
{
    misses=$((misses + 1))
    echo "MISS: $*"
    [ $misses -gt 12 ] || missed="$missed  $(printf '%s' "$*" | tr '\n' ' ' | cut -c 1-300)
"
}
# The misses once more, for logs that are cut: they come last.
finish()
{
    [ $misses -eq 0 ] && exit 0
    printf '%s' "$missed"
    echo "$misses misses"
    exit 1
}

# await COMMAND...: until it succeeds; false when it did not within $patience. Silent: what it prints is dropped. A server of
# serve.sh that has ended by itself ends the test: what is waited for does not come any more.
await()
{
    local end=$((SECONDS + patience))
    until "$@" >/dev/null 2>&1; do
        [ -z "${serving:-}" ] || all_serve || return 1
        [ $SECONDS -lt $end ] || return 1
        sleep 0.05
    done
}
ended() { ! kill -0 "$1" 2>/dev/null; } # PID: a child of this shell has ended

for p in "$zinc" "$mkmodel"; do
    [ -x "$p" ] || skip "no $p: make first"
done

# need_amdsim [own]: $amdsim runs programs on the model of an AMD card, and zinc has kernels for it; else the test is skipped.
# In the sanitizer build it is the release build's where that is made: what is watched is zinc, and a model of a card that is
# watched itself takes five times as long. Its own tests (tests/amdsim) and those that say `own` run the one that is watched.
need_amdsim()
{
    local line
    amdsim=$build/amdsim
    case ${1:-}:$build in :*/sanitize) [ ! -x "$build/../amdsim" ] || amdsim=$(realpath "$build/..")/amdsim ;; esac
    export XDG_CACHE_HOME=$work/xdg # what --tier=auto measures of a model is nobody's business
    export ZINC_AMD_POLL=1          # the model computes on the cores that the host would look with; it still does both
    [ -x "$amdsim" ] || skip "no $amdsim: make first"
    case $build in */sanitize) export ASAN_OPTIONS=verify_asan_link_order=0 ;; esac # the model is preloaded
    line=$("$amdsim" "$zinc" check 2>/dev/null | grep '^tier *kfd ')
    case $line in *kfd*yes*) ;; *) skip "no kfd tier: $(echo "$line" | sed 's/^tier *kfd *no *//')" ;; esac
}

# need_vulkan: there is a device for the vulkan tier; else the test is skipped. Mesa's lavapipe is taken where it is
# installed, so that tests see the same device everywhere; VK_DRIVER_FILES names another driver.
need_vulkan()
{
    local line lavapipe
    lavapipe=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json 2>/dev/null | head -n 1)
    # Its compiler's own passes cost a fifth of it, and tiny models run as quickly without.
    [ -n "${VK_DRIVER_FILES:-}" ] || [ -z "$lavapipe" ] ||
        export VK_DRIVER_FILES=$lavapipe VK_ICD_FILENAMES=$lavapipe GALLIVM_PERF=${GALLIVM_PERF:-nopt}
    line=$("$zinc" check 2>/dev/null | grep '^tier *vulkan ')
    case $line in
    *vulkan*yes*) ;;
    '') skip "no vulkan tier in this build (apt-get install glslc libvulkan-dev)" ;;
    *) skip "no vulkan tier: $(echo "$line" | sed 's/^tier *vulkan *no *//')" ;;
    esac
    export ZINC_VULKAN_CACHE=$work/cache
}

# make_model FAMILY TYPE FILE [mkmodel options]
make_model()
{
    local family=$1 type=$2 file=$3
    shift 3
    "$mkmodel" "tiny-$family" "$file" --type "$type" "$@" >"$work/mkmodel.log" 2>&1 || {
        miss "mkmodel tiny-$family --type $type: $(tail -n 1 "$work/mkmodel.log")"
        return 1
    }
}

# ids COUNT SEED: token ids of a tiny model's vocabulary, separated by commas
ids()
{
    awk -v n="$1" -v s="$2" 'BEGIN { for (i = 0; i < n; i++) { s = (s * 1103515245 + 12345) % 2147483648
        printf "%s%d", i ? "," : "", int(s / 65536) % 640 } }'
}

# greedy NAME MODEL PROMPT N [options]: $work/NAME.ids and $work/NAME.f32
greedy()
{
    local name=$1 model=$2 prompt=$3 n=$4
    shift 4
    "$zinc" run -m "$model" --prompt-tokens "$prompt" -n "$n" --ignore-eos --temp 0 --print-tokens \
        --dump-logits "$work/$name.f32" "$@" >"$work/$name.ids" 2>"$work/$name.log" || {
        miss "$name: zinc run $*: exit $?: $(tail -n 1 "$work/$name.log")"
        return 1
    }
    [ "$(wc -w <"$work/$name.ids")" -eq "$n" ] || {
        miss "$name: $(wc -w <"$work/$name.ids") tokens of $n"
        return 1
    }
}

# same_run A B WHAT: equal tokens and equal bits
same_run()
{
    if ! cmp -s "$work/$1.ids" "$work/$2.ids"; then
        miss "$3: tokens $(cut -c 1-60 "$work/$2.ids") instead of $(cut -c 1-60 "$work/$1.ids")"
    elif ! cmp -s "$work/$1.f32" "$work/$2.f32"; then
        miss "$3: logits: $(cmp "$work/$1.f32" "$work/$2.f32" 2>&1 | sed 's/.*differ: //')"
    fi
}
