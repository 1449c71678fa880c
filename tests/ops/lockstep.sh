# tests/ops/lockstep.sh: what the tests of the op table in lock step share; sourced from the repository's root with ZINC_BUILD set.
# Numbers are the release build's: under sanitizers, which look for what is touched, unit/test_lockstep runs the whole table.
set -u
build=${ZINC_BUILD:-build} ops=${ZINC_BUILD:-build}/tests/ops/test_ops
export -n ZINC_BUILD ZINC_SHARED ZINC_PEER_DIR 2>/dev/null # the scripts' own: zinc warns about names it does not know
[ -x "$ops" ] || { echo "no $ops: make tests first"; exit 77; }
case $build in */sanitize) echo "unit/test_lockstep runs the table there; its numbers are the release build's"; exit 77 ;; esac
rc=0
right() # TIER [FILTER]
{
    local out
    out=$("$ops" --tier "$1" ${2:+--filter "$2"}) || rc=1
    echo "$1 ${2-}: $(echo "$out" | tail -n 10)"
    [[ $out == *" right, 0 wrong, 0 unsupported" ]] && [[ $out != "0 right"* ]] || rc=1
}
