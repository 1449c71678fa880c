/* Code objects from anywhere: what the loader accepts can be laid out and its kernels looked up without leaving the file. */
#include <stdlib.h>
#include <string.h>

#include "rt/amd/amd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { MOST = 1 << 22 }; /* an image may be larger than its file; not in a test */
    static const char *const names[] = { "k_ladder_ids", "k_ladder_shared", "", "k_none" };
    uint8_t *elf = malloc(n ? n : 1); /* its end is the end of what may be read */
    struct amd_code c;
    if (!elf)
        return 0;
    memcpy(elf, data, n);
    if (amd_code_parse(elf, n, amd_chip_of(120001), "fuzz", &c, NULL) == 0 && c.image_bytes <= MOST) {
        uint8_t *image = malloc(c.image_bytes);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            struct amd_kernel k;
            if (amd_code_kernel(&c, names[i], &k, NULL) == 0 && k.entry >= c.image_bytes)
                abort();
        }
        if (image)
            amd_code_image(&c, image);
        free(image);
    }
    free(elf);
    return 0;
}
