/* tests/unit/same_logits.h: two model files give the logits of one prompt on the cpu tier, to the bit. */
#ifndef ZINC_TESTS_UNIT_SAME_LOGITS_H
#define ZINC_TESTS_UNIT_SAME_LOGITS_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

/* After n_prompt tokens, f32 [*n]; the caller frees them. */
static inline float *logits_of(const char *file, uint32_t n_ctx, uint32_t n_prompt, uint32_t *n)
{
    struct err e = { 0 };
    struct engine_opts o = { .path = file, .tier = "cpu", .threads = 1, .n_ctx = n_ctx };
    struct engine *eng;
    struct session *s;
    int32_t *tok = malloc(n_prompt * sizeof *tok);
    const float *l;
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    *n = engine_info(eng)->n_vocab;
    for (uint32_t i = 0; i < n_prompt; i++)
        tok[i] = (int32_t)((i * 37 + 11) % *n);
    ck_assert_msg(session_create(eng, &s, &e) == 0, "%s", e.msg);
    ck_assert_msg(session_eval(s, tok, n_prompt, &l, &e) == 0, "%s", e.msg);
    float *copy = malloc(*n * sizeof *copy);
    memcpy(copy, l, *n * sizeof *copy);
    session_destroy(s);
    engine_close(eng);
    free(tok);
    return copy;
}

static inline void same_logits(const char *file, const char *other, uint32_t n_ctx, uint32_t n_prompt)
{
    uint32_t n, n2;
    float *a = logits_of(file, n_ctx, n_prompt, &n), *b = logits_of(other, n_ctx, n_prompt, &n2);
    ck_assert_uint_eq(n, n2);
    ck_assert(memcmp(a, b, n * sizeof *a) == 0 && a[0] != a[1]);
    free(a);
    free(b);
}

#endif
