#!/usr/bin/env bash
# The cpu tier's products on ARM: their unit tests, built for aarch64 and run by qemu: portable C, NEON, and NEON with SDOT give the
# canonical bits, and conversions of halves are those of kernels/fp.h; and a CPU without SDOT is not given it.
work=$(mktemp -d "${TMPDIR:-/tmp}/zt.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
case ${ZINC_BUILD:-build} in */*) echo "the release build runs it: another compiler builds it in any case"; exit 77 ;; esac
cc=aarch64-linux-gnu-gcc qemu=qemu-aarch64-static
command -v $cc >/dev/null && command -v $qemu >/dev/null || {
    echo "no $cc or no $qemu (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static)"
    exit 77
}
bad=0
miss() { echo "MISS: $*"; bad=1; }

flags='-std=gnu17 -O1 -Wall -Wextra -Werror -Wno-unused-parameter -Wno-psabi -ffp-contract=off -fno-math-errno -fno-trapping-math
    -fno-strict-aliasing -D_GNU_SOURCE -DN_LENGTHS=2 -Itests/lib/cross -I.'
cat >"$work/chosen.c" <<'END'
#include <stdio.h>
#include "oracle/mm.h"
int main(void) { return puts(mm_select(NULL)->isa) < 0; }
END
cat >"$work/halves.c" <<'END'
#include <math.h>
#include <stdio.h>
#include "oracle/v16.h"
/* Each half, and every 4,099th float, as kernels/fp.h converts them. */
int main(void)
{
    uint16_t h[16];
    float f[16];
    for (uint32_t i = 0; i < 65536; i += 16) {
        for (uint32_t l = 0; l < 16; l++)
            h[l] = (uint16_t)(i + l);
        v16_store(f, v16_load_h(h));
        for (uint32_t l = 0; l < 16; l++)
            if (f32_bits(f[l]) != f32_bits(f16_to_f32(h[l])) && !(isnan(f[l]) && isnan(f16_to_f32(h[l]))))
                return printf("half %#x is %a\n", h[l], f[l]), 1;
    }
    for (uint64_t i = 0; i < 1ull << 32; i += 16 * 4099) {
        for (uint32_t l = 0; l < 16; l++)
            f[l] = f32_from_bits((uint32_t)(i + 4099 * l));
        v16_store_h(h, v16_load(f));
        for (uint32_t l = 0; l < 16; l++)
            if (h[l] != f16_from_f32(f[l]) && !isnan(f[l]))
                return printf("%a is half %#x\n", f[l], h[l]), 1;
    }
    return 0;
}
END
compile() # FILE...
{
    local f
    for f; do
        # shellcheck disable=SC2086
        case $f in *_dotprod.c) set -- -march=armv8.2-a+dotprod ;; *) set -- ;; esac
        $cc $flags "$@" -c -o "$work/$(basename "$f" .c).o" "$f" 2>>"$work/err" || echo "$f" >>"$work/failed"
    done
}
compile oracle/mm_neon.c oracle/mm_dotprod.c oracle/mm.c oracle/isa.c &
compile oracle/mm_plain.c oracle/mm_avx2.c oracle/mm_avxvnni.c oracle/mm_avx512.c oracle/mm_vbmi.c oracle/mm_amx.c oracle/mm_books.c kernels/codebooks.c \
    model/quant_book.c tests/unit/test_mm_dot.c tests/unit/test_mm_quant.c "$work/chosen.c" "$work/halves.c"
wait
[ ! -e "$work/failed" ] || { cat "$work/err"; exit 1; }
for t in test_mm_dot test_mm_quant chosen halves; do
    $cc -static -o "$work/$t" "$work/$t.o" "$work"/mm*.o "$work"/{isa,codebooks,quant_book}.o -lm -lpthread || exit 1
done

$qemu "$work/test_mm_quant" || miss "quantised otherwise"
$qemu "$work/halves" || miss "halves are converted otherwise"
$qemu "$work/test_mm_dot" >"$work/out" || miss "other sums: $(tail -n 1 "$work/out")"
cat "$work/out"
! grep -qE '^(neon|dotprod): not on this machine' "$work/out" || miss "not tried: $(grep -E '^(neon|dotprod)' "$work/out")"
for cpu in max:dotprod cortex-a72:neon; do
    got=$($qemu -cpu ${cpu%:*} "$work/chosen")
    [ "$got" = ${cpu#*:} ] || miss "${cpu%:*} is given $got, not ${cpu#*:}"
done
exit $bad
