/* tests/unit/libzinc.h: what the tests of libzinc.so share. They use include/zinc.h alone, as programs do. */
#ifndef ZINC_TESTS_UNIT_LIBZINC_H
#define ZINC_TESTS_UNIT_LIBZINC_H

#include <check.h>
#include <errno.h>
#include <string.h>

#include "include/zinc.h"

#define DEMO "models/zinc-demo.gguf"

/* 0, or the line of the error is shown. */
#define OK(call) ck_assert_msg((call) == 0, "%s: %s", #call, err.text)
/* The error, told in one line that has `words`. */
#define FAILS(call, code_, words)                                                                                    \
    do {                                                                                                             \
        err = (zinc_error){ 0 };                                                                                     \
        int rc_ = (call);                                                                                            \
        ck_assert_msg(rc_ == (code_) && err.code == (code_), "%s: %d, %s, expected %s", #call, rc_, err.text,        \
                      #code_);                                                                                       \
        ck_assert_msg(strstr(err.text, words) && !strchr(err.text, '\n'), "%s: '%s' without '%s'", #call, err.text,  \
                      words);                                                                                        \
    } while (0)

static zinc_error err;

static inline zinc_model *open_demo(uint32_t sessions, uint32_t context)
{
    zinc_model_opts o = {
        .size = sizeof o, .path = DEMO, .tier = "cpu", .sessions = sessions, .context = context, .threads = 1
    };
    zinc_model *m = NULL;
    OK(zinc_model_open(&o, &m, &err));
    return m;
}

static inline zinc_session *open_session(zinc_model *m)
{
    zinc_session *s = NULL;
    OK(zinc_session_open(m, &s, &err));
    return s;
}

/* Tokens of a text; returns how many. */
static inline size_t tokens_of(zinc_model *m, const char *text, int32_t *ids, size_t cap)
{
    size_t n = 0;
    OK(zinc_tokenize(m, text, strlen(text), ZINC_TEXT_ADD_SPECIAL | ZINC_TEXT_PARSE_SPECIAL, ids, cap, &n, &err));
    return n;
}

/* Appends the generation's pieces of one kind to text [cap]; returns what zinc_gen_next returned at last. */
static inline int read_all(zinc_gen *g, int32_t kind, char *text, size_t cap)
{
    zinc_piece p = { .size = sizeof p };
    int rc;
    while ((rc = zinc_gen_next(g, &p, &err)) == 1)
        if (p.kind == kind && strlen(text) + p.n_text < cap)
            strcat(text, p.text);
    return rc;
}

/* Greedy text that follows a prompt on a fresh session. */
static inline void continue_greedily(zinc_model *m, const char *prompt, uint32_t n, char *text, size_t cap)
{
    int32_t ids[256];
    zinc_session *s = open_session(m);
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0", .max_tokens = n };
    zinc_gen *g;
    text[0] = 0;
    OK(zinc_generate(s, ids, tokens_of(m, prompt, ids, 256), &o, &g, &err));
    ck_assert_int_eq(read_all(g, ZINC_PIECE_TEXT, text, cap), 0);
    zinc_gen_close(g);
    zinc_session_close(s);
}

#endif
