#!/bin/sh
# tools/blobs.sh FILE...: C source that embeds compressed device objects. A FILE is .../TARGET/MODULE.ptx.zst, .co.zst or
# .spv.zst.
echo '/* made by tools/blobs.sh */'
echo '#include "base/embed.h"'
echo '#include "rt/blob.h"'
n=0
for f in "$@"; do
    printf 'extern const uint8_t blob_%d_begin[], blob_%d_end[];\nEMBED_FILE(blob_%d, "%s");\n' $n $n $n "$f"
    n=$((n + 1))
done
echo "static _Atomic(uint8_t *) bytes[$n + 1];"
echo 'const struct kernel_blob kernel_blobs[] = {'
n=0
for f in "$@"; do
    module=$(basename "$f")
    printf '    { "%s", "%s", blob_%d_begin, blob_%d_end, &bytes[%d] },\n' "${module%%.*}" "$(basename "$(dirname "$f")")" $n $n $n
    n=$((n + 1))
done
echo '    { "", "", 0, 0, 0 },'
echo '};'
echo "const uint32_t n_kernel_blobs = $n;"
