/* Any bytes as the body of a request: it is refused with 400, a code and a line that is JSON again, or what was read
 * holds to the limits. fuzz_api_json.c changes bodies as trees, and goes on to prompts. */
#include "tests/fuzz/api_request_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct api_defaults d = fuzz_defaults();
    char *body = malloc(size ? size : 1); /* with nothing behind it */
    if (!body)
        return 0;
    memcpy(body, data, size);
    for (int chat = 0; chat < 2; chat++) {
        struct api_request r;
        struct api_problem p = { 0 };
        if ((chat ? api_request_chat : api_request_completion)(&d, body, size, &r, &p))
            check_refused(&p);
        else
            check_read(&r, &d);
        api_request_finish(&r);
    }
    free(body);
    return 0;
}
