/* The file that --tier=auto keeps its measurement in. The first line of the input is taken for the key, so that the rest is reached;
 * what is accepted must be written and read as the same, and what people are shown of it is plain text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "rt/auto_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    enum { WAYS = 3 };
    struct auto_time t[WAYS] = { { "umq", 0 }, { "kfd", 0 }, { "vulkan", 0 } }, again[WAYS] = { { "umq", 0 }, { "kfd", 0 }, { "vulkan", 0 } };
    char *text = malloc(n + 1), *key = NULL, out[AUTO_FILE_BYTES], shown[64];
    memcpy(text, data, n);
    text[n] = 0;
    char *line = strchr(text, '\n');
    size_t n_key = line ? strcspn(line + 1, "\n") : 0;
    key = strndup(line ? line + 1 : "", n_key);
    const char *wrong = auto_file_read(text, key, t, WAYS);
    for (int i = 0; i < WAYS; i++)
        must(wrong ? t[i].us == 0.0 : t[i].us != 0.0 && isfinite(t[i].us));
    auto_file_describe(text, shown, sizeof shown);
    must(strlen(shown) < sizeof shown && strspn(shown, "abcdefghijklmnopqrstuvwxyz0123456789., ") == strlen(shown));
    if (!wrong && auto_file_write(out, sizeof out, key, t, WAYS)) {
        must(auto_file_read(out, key, again, WAYS) == NULL);
        for (int i = 0; i < WAYS; i++)
            must(t[i].us < 0 ? again[i].us < 0 : fabs(again[i].us - t[i].us) <= 0.011 + 1e-9 * t[i].us);
    }
    free(key);
    free(text);
    return 0;
}
