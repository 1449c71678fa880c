/* Any bytes as the body of a request of each dialect: it is refused with 400, a code and a line that is JSON again, or what was read
 * holds to the limits. fuzz_api_json.c changes bodies as trees, and goes on to prompts. */
#include "base/ckd.h"
#include "tests/fuzz/api_request_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An earlier response, for who asks for one. */
static json_t *previous(void *user, const char *id)
{
    (void)user;
    return *id ? json_pack("[{s:s,s:s}]", "role", "user", "content", "before") : NULL;
}

static int (*const readers[])(const struct api_defaults *d, const char *body, size_t n, struct api_request *r,
                              struct api_problem *p) = {
    api_request_chat,      api_request_completion,  api_request_anthropic,
    api_request_responses, api_request_ollama_chat, api_request_ollama_generate,
    api_request_infill, api_request_embeddings, api_request_ollama_embed, api_request_rerank,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct api_defaults d = fuzz_defaults();
    d.previous = previous;
    char *body = malloc(size ? size : 1); /* with nothing behind it */
    if (!body)
        return 0;
    memcpy(body, data, size);
    for (size_t i = 0; i < ARRAY_LEN(readers); i++) {
        struct api_request r;
        struct api_problem p = { 0 };
        if (readers[i](&d, body, size, &r, &p))
            check_refused(&p);
        else
            check_read(&r, &d);
        api_request_finish(&r);
    }
    free(body);
    return 0;
}
