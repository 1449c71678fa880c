/* tests/unit/api_script.h: the API over a scheduler that says what the test wants: calls of tools, failures at any point,
 * refusals. The functions of engine/serve/sched.h are defined here, so one file of a program includes it. */
#ifndef ZINC_TESTS_UNIT_API_SCRIPT_H
#define ZINC_TESTS_UNIT_API_SCRIPT_H

#include "tests/unit/test_api.h"

#include <stdlib.h>

#include "base/ckd.h"
#include "tests/unit/tiny_model.h"

/* ---- the scheduler ---- */

struct sched_job {
    const char *text;        /* what is left to say */
    struct sched_request r;
    struct sched_token tokens[64];
    char buf[4096];
};

static struct {
    const char *text;
    uint32_t per_take;       /* tokens of one take                                      */
    enum sched_end end;      /* how it ends after the text                              */
    enum gen_reason reason;
    int refuse_at, refuse;   /* the submission of this number is refused with this code */
    bool started, hold;      /* it has a slot; nothing is said yet                      */
    uint32_t silent;         /* tokens after the text that have none                    */
    uint32_t live, submitted, n_going_on;
    struct gen_opts gen;     /* of the newest request                                   */
    int32_t prompt[256];     /* [n_prompt] its beginning                                */
    uint32_t n_prompt;
} script;

static struct engine *eng;
static struct api_bench b;

int sched_submit(struct sched *s, const struct sched_request *r, struct sched_job **out, uint32_t *retry_s,
                 struct err *e)
{
    (void)s;
    if ((int)script.submitted++ == script.refuse_at) {
        *retry_s = 7;
        return err_set(e, script.refuse, "refused by the script");
    }
    struct sched_job *j = calloc(1, sizeof *j);
    j->text = script.text;
    j->r = *r;
    script.gen = r->gen;
    script.n_prompt = MIN(r->n_prompt, (uint32_t)ARRAY_LEN(script.prompt));
    memcpy(script.prompt, r->prompt, script.n_prompt * sizeof *r->prompt);
    script.live++;
    script.n_going_on += r->goes_on;
    *out = j;
    return 0;
}

/* Tokens as the vocabulary cuts the text, a few at a time. */
void sched_take(struct sched_job *j, struct sched_out *out)
{
    struct err e = { 0 };
    int32_t *ids;
    uint32_t n;
    *out = (struct sched_out){ .text = j->buf, .tokens = j->tokens, .started = script.started, .n_evaluated = 3,
                               .n_reused = 2 };
    if (script.hold)
        return;
    ck_assert_int_eq(engine_encode(eng, j->text, strlen(j->text), ENGINE_PARSE_SPECIAL, &ids, &n, &e), 0);
    for (uint32_t i = 0; i < MIN(n, script.per_take); i++) {
        char *s;
        size_t len;
        ck_assert_int_eq(engine_decode(eng, ids + i, 1, ENGINE_SHOW_SPECIAL, &s, &len, &e), 0);
        memcpy(j->buf + out->n_text, s, len);
        out->n_text += len;
        j->text += len;
        j->tokens[out->n_tokens++] =
            (struct sched_token){ .id = ids[i], .text_end = (uint32_t)out->n_text, .logprob = -0.5f };
        free(s);
    }
    free(ids);
    if (!*j->text) {
        for (uint32_t i = 0; i < script.silent; i++)
            j->tokens[out->n_tokens++] = (struct sched_token){ .id = 5, .text_end = (uint32_t)out->n_text };
        out->end = script.end;
        out->result = (struct gen_result){ .reason = script.reason, .n_tokens = 11, .n_thought = 6,
                                           .n_prompt = j->r.n_prompt };
        err_set(&out->err, -EIO, "the script ends so");
    }
    j->r.wake(j->r.user);
}

void sched_release(struct sched_job *j)
{
    script.live -= j != NULL;
    free(j);
}

int sched_check(const struct sched *s, const struct sched_request *r, struct err *e)
{
    (void)s, (void)r, (void)e;
    return 0;
}

struct sched_stats sched_stats(const struct sched *s)
{
    (void)s;
    return (struct sched_stats){ .slots = 4, .running = 1 };
}

void sched_cancel(struct sched_job *j)
{
    (void)j;
}

/* ---- */

static void say(const char *text)
{
    memset(&script, 0, sizeof script);
    script.text = text;
    script.per_take = 1;
    script.end = SCHED_OK;
    script.reason = GEN_EOG;
    script.refuse_at = -1;
}

static char path[64] = "/tmp/zinc-api-XXXXXX";

static void setup(void)
{
    struct err e = { 0 };
    tiny_model(path, "tiny-qwen3");
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    struct api_opts o = { .eng = eng, .sampling = sampler_defaults(), .think = -1, .think_budget = -1 };
    ck_assert_msg(api_create(&o, &b.api, &e) == 0, "%s", e.msg);
}

static void teardown(void)
{
    ck_assert_uint_eq(script.live, 0);
    api_destroy(b.api);
    engine_close(eng);
    unlink(path);
}

#endif
