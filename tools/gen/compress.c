/* tools/gen/compress.c: standard input to standard output as one zstd frame that tells its size (rt/blob.h).
 * Level 9: of 67 MB of device code it leaves 13.1 in 3.5 s of one core; level 3 15.4 in 1.6 s, level 15 12.3 in 13 s. */
#include <stdio.h>
#include <stdlib.h>

#include <zstd.h>

enum { LEVEL = 9 };

static int fail(const char *what)
{
    fprintf(stderr, "compress: %s\n", what);
    return 1;
}

int main(void)
{
    size_t n = 0, room = 1 << 20, got;
    char *in = malloc(room);
    while (in && (got = fread(in + n, 1, room - n, stdin)) > 0)
        if ((n += got) == room)
            in = realloc(in, room *= 2);
    if (!in || ferror(stdin))
        return fail("cannot read its input");
    size_t bound = ZSTD_compressBound(n);
    char *out = malloc(bound);
    if (!out)
        return fail("no memory");
    size_t packed = ZSTD_compress(out, bound, in, n, LEVEL);
    if (ZSTD_isError(packed))
        return fail(ZSTD_getErrorName(packed));
    if (fwrite(out, 1, packed, stdout) != packed || fclose(stdout))
        return fail("cannot write its output");
    free(in);
    free(out);
    return 0;
}
