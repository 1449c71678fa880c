# tests/amdsim/kmd_lib.sh: for the scripts that run clients under amdsim.
build=${ZINC_BUILD:-build}
amdsim=$build/amdsim
bad=0

# need CLIENT...: skips the test where a client could not be built.
need() {
    [ -x "$amdsim" ] && [ -f "$build/libamdsim.so" ] || { echo "$amdsim is not built"; exit 77; }
    if ldd "$build/libamdsim.so" 2>/dev/null | grep -q libasan; then
        export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
    fi
    for c; do
        [ -x "$build/tests/amdsim/$c" ] || { echo "$c is not built: its library is not installed"; exit 77; }
    done
}

# check WHAT GOT EXPECTED
check() {
    if [ "$2" = "$3" ]; then echo "ok    $1"; else echo "FAIL  $1: '$2', expected '$3'"; bad=1; fi
}

# passes WHAT COMMAND...: its last line is "ok" or ends so, its exit 0.
passes() {
    local what=$1 out rc
    shift
    out=$("$@" 2>&1)
    rc=$?
    if [ $rc -eq 0 ]; then echo "ok    $what"; else echo "FAIL  $what: exit $rc"; echo "$out" | tail -n 20; bad=1; fi
}

# Sizes of the context save area: cwsr, control stack, buffer.
save_area() {
    case $1 in
    gfx1201) echo 0x1D47000 0x7000 0x1D57000 ;;
    gfx1200) echo 0xEA4000 0x4000 0xEAC000 ;;
    gfx1151) echo 0x124C000 0x4000 0x1256000 ;;
    gfx1100) echo 0x2BEA000 0xA000 0x2C02000 ;;
    gfx1101) echo 0x1B72000 0x6000 0x1B81000 ;;
    gfx1102) echo 0xAA4000 0x4000 0xAAC000 ;;
    gfx1103) echo 0x3FE000 0x2000 0x401000 ;;
    gfx1150) echo 0x552000 0x2000 0x556000 ;;
    esac
}
