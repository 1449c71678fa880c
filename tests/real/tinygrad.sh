# tests/real/tinygrad.sh: tinygrad as it was released, on amdsim: its own driver of AMD cards (KFD's ioctls, queues,
# packets), with LLVM as its compiler. Sourced by the tests of each card, after tests/real/lib.sh.
#
# tinygrad_card GPU SHIFT: the card with queues of PM4 and of AQL packets, one with SDMA queues and one without (SHIFT 1: the
# other one), so that two cards have all four. Each of the two runs all of tinygrad_queues.py and half of tinygrad_ops.py.
# With TINYGRAD_FULL=1 (and TEST_TIMEOUT=3600) each of the four runs everything, with more and larger shapes.
need_real tinygrad
amdsim=$build/amdsim
[ -x "$amdsim" ] || skip "no $amdsim: make first"

# tinygrad compiles for the card by libLLVM, and a few programs for the processor by a command.
clang=$(command -v "${CLANG:-clang-19}") || skip "no clang-19, whose LLVM tinygrad needs (apt-get install clang-19)"
llvm=$(ldd "$(readlink -f "$clang")" | awk '/libLLVM/ { print $3; exit }')
[ -e "$llvm" ] || skip "$clang has no shared LLVM for tinygrad to compile with (apt-get install clang-19)"

# Nothing is kept from run to run; ctypes calls mmap where a preload does not see it; what tinygrad checks of itself
# while it compiles, and the places it remembers for its messages, are a tenth of the time.
export CC=$clang LLVM_PATH=$llvm PARALLEL=0 SPEC=0 TRACEMETA=0 XDG_CACHE_HOME=$work
export AMDSIM_STATS=1
export DEV=KFD+AMD:LLVM HCQDEV_WAIT_TIMEOUT_MS=120000 PYTHONDONTWRITEBYTECODE=1

# tinygrad_run NAME SCRIPT [ARGUMENT...]
tinygrad_run()
{
    local name=$1 log=$work/log
    shift
    if timeout "${TINYGRAD_TIMEOUT:-1200}" "$amdsim" --plain-offsets --gpu "$gpu" "$real_python" tests/real/"$@" >"$log" 2>&1; then
        echo "ok    $gpu $name: $(tail -n 2 "$log" | tr '\n' ' ')"
    else
        miss "$gpu $name: exit $?"
        tr '\r' '\n' <"$log" | grep -vE '^ *compiling|^$' | tail -n 60
    fi
}

tinygrad_card() # GPU SHIFT
{
    local gpu=$1 shift=$2 aql no_sdma name
    export AMD_AQL AMD_DISABLE_SDMA CACHEDB=$work/$1.db
    for aql in 0 1; do
        for no_sdma in 0 1; do
            [ -n "${TINYGRAD_FULL:-}" ] || [ $no_sdma = $((aql ^ shift)) ] || continue
            AMD_AQL=$aql AMD_DISABLE_SDMA=$no_sdma
            name=$([ $aql = 1 ] && echo AQL || echo PM4)$([ $no_sdma = 1 ] || echo "+SDMA")
            tinygrad_run "$name queues" tinygrad_queues.py
            if [ -n "${TINYGRAD_FULL:-}" ]; then
                TINYGRAD_TIMEOUT=1800 tinygrad_run "$name ops" tinygrad_ops.py
            else
                tinygrad_run "$name ops, a half" tinygrad_ops.py --part $aql/2
            fi
        done
        tinygrad_run "$name fault" tinygrad_queues.py fault
    done
}
