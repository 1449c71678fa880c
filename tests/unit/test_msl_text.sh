#!/usr/bin/env bash
# Kernels as Metal texts: what tools/gen/msl_text.c makes of C, what it refuses, and that the texts of all modules keep the
# address space of every pointer (clang's address spaces stand for Metal's).
work=$(mktemp -d "${TMPDIR:-/tmp}/zt.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
tool=build/kernels/msl_text
[ -x $tool ] || { echo "no $tool in this build"; exit 77; }
bad=0
miss() { echo "MISS: $*"; bad=1; }
echo 'k_test 64 test' >"$work/threads.txt"

text() { $tool kernels/hw/msl.metal "$work/threads.txt" <<<"$1" >"$work/out" 2>"$work/err"; }

# makes C EXPECTED...: each expected string is in what becomes of the C, by words
makes()
{
    local c=$1 want
    shift
    text "$c" || miss "$c: $(cat "$work/err")"
    for want; do
        tr -s ' \n' ' ' <"$work/out" | grep -qF -- "$want" || miss "of '$c' nothing became '$want'"
    done
}
# refuses C WHY
refuses()
{
    ! text "$1" || miss "'$1' was taken"
    grep -q "^msl: .*$2" "$work/err" || miss "'$1': $(head -n 1 "$work/err"), not: $2"
}

types='typedef unsigned gpu_va; struct s { int a; float b[2]; struct { int c; } d; }; struct t { struct s x; int y; };'
k='typedef struct { gpu_va p; } kl; __kd_kernel(k_test, kl) { f(&a); }'
makes "$types $k static inline float f(const kl *x) { return 0x1p-3f; }" 'float f(thread const kl *x)' 'return 0.125f;' \
    'struct kd_item {' 'kernel void k_test(constant kl &a [[buffer(0)]], threadgroup uchar *shared [[threadgroup(0)]]' \
    '[[max_total_threads_per_threadgroup(64)]]'
makes "$types $k void f(const kl *x, float y[2][4], __kd_threadgroup const float z[8]) { }" \
    'thread float (*y)[4], threadgroup const float *z'
makes "$types $k void f(__kd_device kl *x) { __kd_device float *p = (__kd_device float *)(uintptr_t)x->p, *q = p; }" \
    'device float *p = (device float *)(ulong)x->p, *q = p;'
makes "$types $k int f(kl *x) { struct t v = { .y = 2, .x = { .d = { 3 } } }; return (struct s){ 1 }.a + v.y; }" \
    'struct t v = { { {}, {}, { 3}}, 2};' 's_t{ 1}.a'
makes "$types $k int f(kl *x) { float half = 1, o[2] = { 0 }; return half * o[1]; }" 'float half_ = 1, o[2] = {};' 'half_ * o[1]'
makes "$types $k __kd_constant unsigned book[] = { (1u << 3 | 2) - 4 / 2 * 3, ((uint32_t)9 >> 1) & 6 };
    int f(kl *x) { return book[0]; }" 'constant unsigned book[] = { 0x4u,0x4u };'
refuses "$types $k int f(kl **x) { return 0; }" 'a pointer to a pointer'
refuses "$types $k int f(kl *x) { goto end; end: return 0; }" "'goto' in a function"
refuses "$types $k int f(kl *x) { static int n; return n; }" "'static' in a function"
refuses "$types $k int f(kl *x) { struct s v = { .e = 1 }; return v.a; }" 'a field that the struct does not have'
refuses "$types $k int f(kl *x) { return (struct u){ 1 }.a; }" 'a literal of an unknown type'
refuses "$types $k int f(kl *x) { return 0; " 'a bracket that is not closed'
refuses 'typedef struct { int p; } kl; __kd_kernel(k_other, kl) { }' 'not in kernels/kernels.def'

# Copies of structs and vectors are all that clang cannot do between its address spaces, and MSL can.
copies="no matching constructor for initialization of|no viable overloaded '='|incompatible operand types \('const __attribute__"
if ls build/kernels/msl/*.cc >/dev/null 2>&1; then
    n=0
    for m in basic rope attn_h64 attn_h128 attn_h256 attn_other attn_prompt_h64 attn_prompt_h128 attn_prompt_h256 sample gdn gdn_prompt act gemm_f32 moe_prompt ladder roof matvec1_q4k matvec_q6k matvec_iq2s \
        matvec_any gemm_q4k_q6k gemm_mxfp4 gemm_f16; do
        [ -f build/kernels/msl/$m.cc ] || continue
        ${CLANG:-clang-19} -x c++ -std=c++14 -fsyntax-only -ferror-limit=0 -DMETALSIM_SPACES -Wno-unknown-attributes -Itools/metalsim/msl -I. \
            build/kernels/msl/$m.cc 2>&1 | grep 'error:' | grep -vE "$copies" >"$work/errors"
        [ ! -s "$work/errors" ] || miss "$m: $(head -n 1 "$work/errors")"
        n=$((n + 1))
    done
    [ $n -gt 12 ] || miss "$n texts to look at"
    # and the check sees a pointer that loses its space
    printf '#include <metal_stdlib>\nthread float *f(device float *p) { return p; }\n' | ${CLANG:-clang-19} -x c++ -std=c++14 -fsyntax-only \
        -DMETALSIM_SPACES -Itools/metalsim/msl - 2>&1 | grep 'error:' | grep -qvE "$copies" || miss "a lost address space is not seen"
else
    echo "skipped: address spaces: this build has no texts for the host"
fi
exit $bad
