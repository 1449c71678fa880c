#!/bin/sh
# tools/blobs.sh FILE...: C source that embeds device objects. A FILE is .../TARGET/MODULE.ptx, .co or .spv.
echo '/* made by tools/blobs.sh */'
echo '#include "rt/blob.h"'
n=0
for f in "$@"; do
    end=''
    case $f in *.ptx) end='.byte 0\n' ;; esac # PTX is text: it ends with a zero
    printf 'extern const uint8_t blob_%d[], blob_end_%d[];\n' $n $n
    printf '__asm__(".section .rodata\\n.balign 64\\n.globl blob_%d\\nblob_%d: .incbin \\"%s\\"\\n%s' $n $n "$f" "$end"
    printf '.globl blob_end_%d\\nblob_end_%d:\\n.text\\n");\n' $n $n
    n=$((n + 1))
done
echo 'const struct kernel_blob kernel_blobs[] = {'
n=0
for f in "$@"; do
    module=$(basename "$f")
    printf '    { "%s", "%s", blob_%d, blob_end_%d },\n' "${module%.*}" "$(basename "$(dirname "$f")")" $n $n
    n=$((n + 1))
done
echo '    { "", "", 0, 0 },'
echo '};'
echo "const uint32_t n_kernel_blobs = $n;"
