#!/usr/bin/env bash
# --tier=auto on an AMD card: its ways are tried once, the order is kept and obeyed, a file that is stale or broken is measured anew,
# and a way that fails is passed over with a line. On the hardware model, where times mean nothing: orders are written by hand.
. tests/e2e/lib.sh
build=$(realpath "$build") zinc=$(realpath "$zinc") mkmodel=$(realpath "$mkmodel") # reports of hangs go into $work
need_amdsim
"$amdsim" "$zinc" check 2>/dev/null | grep '^tier *cs ' | grep -q yes || skip "built without libdrm_amdgpu's headers"
export XDG_CACHE_HOME=$work/cache ZINC_KFD_TIMEOUT=120 # not need_amdsim's
export -n ZINC_TIER ZINC_AUTO
file=$work/cache/zinc/tiers-amd
make_model llama Q8_0 "$work/m.gguf" || finish
cd "$work" || exit 1

# start [SIM-OPTIONS]: in $work/err what it says; prints the tier
start()
{
    ZINC_LOG=info "$amdsim" --gpu gfx1201 "$@" "$zinc" run -m "$work/m.gguf" --tier auto --prompt-tokens 1,2 -n 1 --ctx 64 \
        --temp 0 --print-tokens >"$work/out" 2>"$work/err" || miss "start $*: $(tail -n 1 "$work/err")"
    grep -oh ' end=[a-z]* .*tier=[a-z]*' "$work/out" "$work/err" | head -n 1 | sed 's/.*=//'
}
said() { grep -q -- "$2" "$work/err" || miss "$1: no '$2' in: $(grep -v tok "$work/err" | head -n 12)"; } # WHAT WORDS
silent() { grep -q -- "$2" "$work/err" && miss "$1: '$2' in: $(grep -- "$2" "$work/err")"; }
# order A B C: as if it had been measured so
order()
{
    head -n 2 "$work/good" >"$file"
    printf '%s 1.5\n%s 20\n%s 300.25\n' "$1" "$2" "$3" >>"$file"
}

tier=$(start)
said first "trying 3 ways"
case $tier in umq | kfd | cs) ;; *) miss "first: on '$tier'" ;; esac
cp "$file" "$work/good" || finish
sed 's/^/kept: /' "$file" | cut -c1-120
[ "$(sed -n '3,$p' "$file" | sort -n -k 2 -c 2>&1)" = "" ] || miss "first: not in order: $(sed -n '3,$p' "$file")"
[ "$(sed -n 3p "$file" | cut -d' ' -f1)" = "$tier" ] || miss "first: on $tier, kept $(sed -n 3p "$file")"

for o in "cs kfd umq" "kfd umq cs" "umq cs kfd"; do
    order $o
    tier=$(start)
    [ "$tier" = "${o%% *}" ] || miss "order $o: on '$tier'"
    silent "order $o" "trying"
done
order kfd cs umq
"$amdsim" --gpu gfx1201 "$zinc" check >"$work/out" 2>&1
grep -q '^auto .*kfd 1.5.*cs 20.*umq 300.25.*the least first' "$work/out" || miss "check: $(grep ^auto "$work/out")"

# of something else
sed -i '2s/firmware [0-9]*/firmware 1/' "$file"
start >/dev/null
said "another firmware" "is ignored: it is of another device"
said "another firmware" "trying 3 ways"
cmp -s <(head -n 2 "$file") <(head -n 2 "$work/good") || miss "another firmware: the key is not written anew"
start --gpu gfx1100 >/dev/null
said "another card" "trying 3 ways"
start --user-queues off >/dev/null
said "a way less" "trying 2 ways"

# broken
breaks() # WHAT: what lies there is measured anew
{
    start >/dev/null
    said "$1" "trying 3 ways"
    cmp -s <(head -n 2 "$file") <(head -n 2 "$work/good") || miss "$1: the file stays broken"
}
: >"$file"
breaks "an empty file"
head -c 3000 /dev/urandom >"$file"
breaks "rubbish"
{ cat "$work/good"; head -c 5000 /dev/zero | tr '\0' 'x'; } >"$file"
breaks "too long a file"
head -n 4 "$work/good" >"$file"
breaks "a line less"
{ cat "$work/good"; echo "umq 1"; } >"$file"
breaks "a line twice"
{ head -n 4 "$work/good"; echo "vulkan 1"; } >"$file"
breaks "a way that is not there"
{ head -n 4 "$work/good"; echo "$(sed -n 5p "$work/good" | cut -d' ' -f1) 0.0"; } >"$file"
breaks "no time"
{ head -n 4 "$work/good"; echo "$(sed -n 5p "$work/good" | cut -d' ' -f1) nan"; } >"$file"
breaks "not a number"
{ head -n 4 "$work/good"; echo "$(sed -n 5p "$work/good" | cut -d' ' -f1) -1e9 oops"; } >"$file"
breaks "a number that is none"

# a way that fails
order kfd cs umq
tier=$(start --inject queue-enomem)
[ "$tier" = cs ] || miss "kfd's queue fails: on '$tier'"
said "kfd's queue fails" "tier kfd probed well but did not open: .*no compute queue left"
rm "$file"
tier=$(start --inject queue-enomem)
said "kfd fails when tried" "tier kfd is passed over: .*no compute queue left"
[ "$tier" != kfd ] && grep -q '^kfd failed$' "$file" || miss "kfd fails when tried: on '$tier', kept $(sed -n '3,$p' "$file")"
tier=$(start)
[ "$tier" != kfd ] || miss "a way that failed is taken"
ZINC_AUTO=measure start >/dev/null
said "measure" "trying 3 ways"
grep -q failed "$file" && miss "measure: kept $(grep failed "$file")"


# Each way's reason, and what goes on in its place.
falls() # WHAT TIER WORDS SIM-OPTIONS
{
    local what=$1 want=$2 words=$3
    shift 3
    tier=$(ZINC_AUTO=measure start "$@")
    [ "$tier" = "$want" ] || miss "$what: on '$tier'"
    said "$what" "$words"
    grep -h "$words" "$work/err" | head -n 1 | cut -c1-150
}
case $build in
*/sanitize) ;; # the same code, ten starts more
*)
    # A card that hangs is found out once by each way, not again when it comes to opening; the cpu goes on.
    tier=$(ZINC_KFD_TIMEOUT=1 ZINC_AUTO=measure start --inject hang)
    [ "$tier" = cpu ] || miss "a card that hangs: on '$tier'"
    for t in umq kfd cs; do
        n=$(grep -c "tier $t .*no progress for 1 s" "$work/err")
        [ "$n" = 1 ] || miss "a card that hangs: told $n times for $t: $(grep "tier $t" "$work/err")"
    done
    cp "$work/good" "$file"
    falls "no user queues, no kfd" cs "tier umq: user-mode queues are off .*amdgpu.user_queue=1" --user-queues off --inject no-kfd
    falls "no kfd" cs "tier kfd: no AMD compute driver" --user-queues off --inject no-kfd
    falls "old firmware" cs "tier umq is passed over: the MEC firmware of gfx1201 is version 3000" --firmware mec=3000 --inject no-kfd
    falls "an old kernel for umq" cs "tier umq is passed over: .*user-mode queues came with 3.64" --kernel-version 6.15 --inject no-kfd
    falls "no compute rings" umq "tier cs is passed over: .*amdgpu.user_queue=2" --user-queues only --inject no-kfd
    falls "no permission" cpu "tier cs is passed over: no permission for /dev/dri/renderD128: sudo usermod" --inject eacces
    falls "no room" cpu "tier umq is passed over: .*no room for" --inject vram-enomem
    cp "$work/good" "$file"
    ;;
esac

order cs kfd umq
[ "$(ZINC_AUTO=list start)" = umq ] || miss "the list's order: $(grep 'tier=' "$work/out")"
silent "the list's order" "trying"
tier=$(ZINC_AUTO=perhaps start)
said "an odd word" "ZINC_AUTO=perhaps: expected measure or list"
[ "$tier" = cs ] || miss "an odd word: on $tier"
XDG_CACHE_HOME=/proc/nowhere start >/dev/null
said "no place to keep it" "cannot be written: the next start measures again"
finish
