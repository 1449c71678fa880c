#!/usr/bin/env bash
# Many clients at once, good and bad, with schemas, grammars, tools, probabilities and plain text among them. On the cpu tier every stream must say what a server with nothing else to do says; on
# the null tier 2,000 requests over 64 connections leave nothing behind. LOAD_SECONDS=600 goes on for so long on the
# null tier and reports how the server's memory grew.
. tests/e2e/lib.sh
. tests/e2e/serve.sh
[ -x "$loadgen" ] || skip "no $loadgen: make first"
command -v curl >/dev/null || skip "curl is not installed"

# load NAME [options]: a run against $url; a miss when anything is not as it should be
load()
{
    load_begin "$@"
    load_end "$1"
}
load_begin()
{
    shift
    "$loadgen" "$@" "$url" >"$work/report" 2>"$work/wrong" &
    loading=$!
}
load_end() # NAME
{
    wait $loading || miss "$1: loadgen: exit $?: $(head -n 5 "$work/wrong")"
    sed "s/^/  $1: /" "$work/report"
}

# ---- the cpu tier: the same text as alone ----

# Recurrent state, sliding windows and plain attention; few slots, so that they are taken over and over.
verify()
{
    local family=$1 type=$2 distinct=60 n=300 size="--prefix-words 60 --tokens 24"
    shift 2
    local forms="--forms 50 $*"
    [ -n "$slow_build" ] && distinct=12 n=50 size="--prefix-words 20 --tokens 12"
    make_model "$family" "$type" "$work/$family.gguf" || return
    set -- -m "$work/$family.gguf" --tier cpu --ctx 2048 --quiet
    serve alone "$@" --slots 1 --cache-mib 0 || return
    load "$family alone" --distinct $distinct $forms $size --solo "$work/expected"
    serve_end alone $pid
    serve many "$@" --slots 4 --queue 256 --cache-mib 64 || return
    load "$family" -n $n -c 64 --distinct $distinct $forms $size --slow 5 --drop 15 --bad 5 \
        --verify "$work/expected"
    all_quiet "$family" "$url"
    [ "$(metric zinc_prefix_hits_total "$url")" -gt 0 ] || miss "$family: no prefix was used again"
    serve_end many $pid
    # A short queue, all of it taken until somebody was refused: what is refused comes again
    serve short "$@" --slots 2 --queue 4 --cache-mib 1 || return
    take_places 2 4
    load_begin "$family, short queue" -n $((n / 6)) -c 12 --distinct $distinct $forms $size --retry \
        --verify "$work/expected"
    await metric_is_over zinc_requests_refused_total 0 "$url" || miss "$family: nothing was refused"
    leave_places
    load_end "$family, short queue"
    grep -q 'sent again' "$work/report" || miss "$family: what was refused did not come again"
    all_quiet "$family, short queue" "$url"
    serve_end short $pid
}
verify qwen3 Q4_K_M
case $build in */thread) ;; *) verify qwen35moe Q8_0 ;; esac # the same threads again
[ -n "$slow_build" ] || verify gemma3 Q8_0 --no-tools

# ---- the null tier: many ----

model=models/zinc-demo.gguf
[ -e $model ] || { make_model qwen35 Q8_0 "$work/null.gguf" && model=$work/null.gguf; }
n=2000
[ -n "$slow_build" ] && n=400
serve null -m $model --tier null --slots 32 --queue 256 --cache-mib 64 --quiet || finish
load "null" ${LOAD_SECONDS:+--seconds $LOAD_SECONDS} -n $n -c 64 --distinct 500 --forms 25 --tokens 64 --slow 5 --drop 20 --bad 10 --watch $pid
all_quiet null "$url"
serve_end null $pid

# Tokens that follow from the whole sequence in the cache: here too nothing is mixed, with a device's pace.
export ZINC_NULL_HISTORY=1
serve alone -m $model --tier null --slots 1 --cache-mib 0 --quiet || finish
load "null alone" --distinct 100 --forms 40 --tokens 48 --solo "$work/expected"
serve_end alone $pid
ZINC_NULL_GBS=100 serve history -m $model --tier null --slots 16 --queue 256 --cache-mib 4 --quiet || finish
load "null history" -n $((n / 2)) -c 64 --distinct 100 --forms 40 --tokens 48 --slow 5 --drop 15 --bad 5 --verify "$work/expected"
# The comparison must see a difference.
sed 's/\["length","/&#/g' "$work/expected" >"$work/other"
"$loadgen" -n 50 -c 8 --distinct 100 --forms 40 --tokens 48 --verify "$work/other" "$url" >"$work/report" 2>&1 &&
    miss "loadgen does not see that answers are different"
grep -q '^  different ' "$work/report" || miss "loadgen tells of no difference: $(tail -n 3 "$work/report")"
all_quiet "null history" "$url"
serve_end history $pid
unset ZINC_NULL_HISTORY

# What the scheduler costs, with 32 streams and nothing else: printed, not judged.
serve streams -m $model --tier null --slots 32 --queue 256 --quiet || finish
load "32 streams" -n $((n / 4)) -c 32 --plain 0 --distinct 500 --tokens 256
{ metric zinc_busy_seconds_total "$url" && metric zinc_step_seconds_total "$url" && metric zinc_generated_tokens_total "$url"; } |
    tr '\n' ' ' | awk '{ printf "scheduler: %.2f us per token (%d tokens; %.2f s in rounds, %.2f s of them in the tier)\n",
        ($1 - $2) / $3 * 1e6, $3, $1, $2 }'
# A server that stands still is found.
kill -STOP $pid
"$loadgen" -n 2 -c 2 --timeout 1 "$url" >"$work/report" 2>&1
rc=$?
kill -CONT $pid
[ $rc -eq 1 ] && grep -q '^  hangs  *2 ' "$work/report" || miss "two requests to a server that was stopped: exit $rc: $(tail -n 3 "$work/report")"
serve_end streams $pid
finish
