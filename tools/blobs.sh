#!/bin/sh
# tools/blobs.sh FILE...: C source that embeds compressed device objects. A FILE is .../TARGET/MODULE.ptx.zst, .co.zst or
# .spv.zst.
echo '/* made by tools/blobs.sh */'
echo '#include "rt/blob.h"'
n=0
for f in "$@"; do
    printf 'extern const uint8_t blob_%d[], blob_end_%d[];\n' $n $n
    printf '__asm__(".section .rodata\\n.globl blob_%d\\nblob_%d: .incbin \\"%s\\"\\n' $n $n "$f"
    printf '.globl blob_end_%d\\nblob_end_%d:\\n.text\\n");\n' $n $n
    n=$((n + 1))
done
echo "static _Atomic(uint8_t *) bytes[$n + 1];"
echo 'const struct kernel_blob kernel_blobs[] = {'
n=0
for f in "$@"; do
    module=$(basename "$f")
    printf '    { "%s", "%s", blob_%d, blob_end_%d, &bytes[%d] },\n' "${module%%.*}" "$(basename "$(dirname "$f")")" $n $n $n
    n=$((n + 1))
done
echo '    { "", "", 0, 0, 0 },'
echo '};'
echo "const uint32_t n_kernel_blobs = $n;"
