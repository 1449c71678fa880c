/* Any text as what libzinc reads itself: parameters of sampling (first byte even) and the calls of a message (odd). It
 * is taken, or refused in one line, and then nothing was written. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "include/zinc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static zinc_model *model(void)
{
    static zinc_model *m;
    zinc_model_opts o = { .size = sizeof o, .path = "models/zinc-demo.gguf", .flags = ZINC_MODEL_VOCABULARY };
    zinc_error e;
    if (!m && zinc_model_open(&o, &m, &e))
        abort();
    return m;
}

static void check_line(int rc, const zinc_error *e)
{
    CHECK(rc == e->code && strlen(e->text) > 8);
    for (const char *c = e->text; *c; c++)
        CHECK((unsigned char)*c >= 0x20);
}

static void sample(const char *text)
{
    zinc_gen_opts o = { .size = sizeof o, .sampling = text };
    zinc_sampler *s = NULL;
    zinc_error e = { 0 };
    int rc = zinc_sampler_open(model(), &o, &s, &e);
    CHECK((rc == 0) == (s != NULL));
    if (rc)
        check_line(rc, &e);
    zinc_sampler_close(s);
}

static void call(const char *text)
{
    zinc_message m[3] = { { .size = sizeof *m, .role = "user", .text = "?" },
                          { .size = sizeof *m, .role = "assistant", .tool_calls = text },
                          { .size = sizeof *m, .role = "user", .text = "!" } };
    zinc_error e = { 0 };
    size_t n = 12345;
    int rc = zinc_prompt(model(), m, 3, NULL, NULL, 0, &n, &e);
    CHECK((rc == 0) == (n != 12345));
    if (rc)
        check_line(rc, &e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text || !size) {
        free(text);
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    if (data[0] & 1)
        call(text);
    else
        sample(text);
    free(text);
    return 0;
}
