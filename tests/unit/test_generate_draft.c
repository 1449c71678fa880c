/* An answer with guesses is the answer without: its tokens, text, logits, end, and the session behind it; whoever chooses the tokens. */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "engine/draft.h"
#include "engine/generate.h"
#include "engine/priv.h"
#include "tests/lib/run.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 80, N_PROMPT = 24, MOST = 4096 };

struct said {
    char text[MOST];
    size_t n_text;
    int32_t id[N_CTX + 1];
    uint32_t n_id, logits; /* logits: a sum of what on_token saw */
    struct engine *eng;
    struct flag cancel;
    uint32_t cancel_at; /* tokens; 0: never */
};

static int on_text(void *user, const char *s, size_t n)
{
    struct said *x = user;
    ck_assert_uint_lt(x->n_text + n, MOST);
    memcpy(x->text + x->n_text, s, n);
    x->n_text += n;
    return 0;
}

static int on_token(void *user, int32_t id, const float *logits)
{
    struct said *x = user;
    uint32_t bits = 0;
    if (logits)
        memcpy(&bits, &logits[id], sizeof bits);
    x->id[x->n_id++] = id;
    x->logits = x->logits * 31 + bits;
    for (uint32_t i = 1; i <= DRAFT_ROWS; i++) /* whatever the machine is busy with: a row more costs little */
        x->eng->few.ns[i] = 100 + i;
    flag_set(&x->cancel, x->n_id == x->cancel_at);
    return 0;
}

/* As was said, but for a token now and then. */
static void mislead(int32_t *predicted, const struct said *x)
{
    for (uint32_t i = 0; i < x->n_id; i++)
        predicted[i] = i % 9 == 8 ? x->id[i] + 1 : x->id[i];
}

struct kind {
    const char *what;
    void (*set)(struct gen_opts *o);
};

static void greedy(struct gen_opts *o) { o->sampling.temp = 0; }
static void drawn_by_the_host(struct gen_opts *o) { o->sampling.temp = 0.2f; o->sampling.rng = SAMPLER_RNG_MT19937; }
static void drawn_by_the_device(struct gen_opts *o) { o->sampling.temp = 0.2f; o->sampling.rng = SAMPLER_RNG_COUNTER; }
static void penalised(struct gen_opts *o)
{
    greedy(o);
    o->sampling.repeat_penalty = 1.02f;
}
static void looked_at(struct gen_opts *o)
{
    greedy(o);
    o->want_logits = true;
}
static void short_one(struct gen_opts *o)
{
    greedy(o);
    o->n_max = 15;
}

/* Of a vocabulary of bytes, for models that have none. */
static struct grammar *letters;
static uint32_t letters_vocab;
static enum vocab_kind byte_token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char text;
    text = (char)id;
    *bytes = &text;
    *n = 1;
    return id + 1 == (int32_t)letters_vocab ? VOCAB_END : id < 256 ? VOCAB_TEXT : VOCAB_UNUSED;
}
static void within_a_grammar(struct gen_opts *o)
{
    greedy(o);
    o->grammar = letters;
    o->n_max = 30;
}
static void drawn_within_a_grammar(struct gen_opts *o)
{
    drawn_by_the_host(o);
    o->grammar = letters;
    o->n_max = 30;
}

static const struct kind kinds[] = { { "within a grammar", within_a_grammar }, { "drawn within a grammar", drawn_within_a_grammar },
                                     { "greedy", greedy }, { "drawn by the host", drawn_by_the_host },
                                     { "drawn by the device", drawn_by_the_device }, { "penalised", penalised },
                                     { "looked at", looked_at }, { "a limit", short_one } };

static struct engine *open_model(const char *preset, const char *tier, bool go_back)
{
    char path[] = "/tmp/zinc-draft-XXXXXX";
    struct engine_opts o = { .path = path, .tier = tier, .n_ctx = N_CTX, .go_back = go_back };
    struct engine *eng;
    struct err e = { 0 };
    tiny_model(path, preset);
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    unlink(path);
    return eng;
}

/* An answer, and what the session holds then. like: with guesses, from another one that differs now and then; NULL: without. */
static void answer(struct engine *eng, const struct kind *k, const struct said *like, struct said *x, struct gen_result *r)
{
    int32_t predicted[N_CTX + 1];
    int32_t prompt[N_PROMPT];
    struct session *s;
    struct err e = { 0 };
    for (uint32_t i = 0; i < N_PROMPT; i++)
        prompt[i] = 20 + (int32_t)(i % 5) * 7;
    struct gen_opts o = { .sampling = sampler_defaults(), .ignore_eos = true, .on_text = on_text, .on_token = on_token, .user = x,
                          .fingerprint = true };
    if (like) {
        mislead(predicted, like);
        o.n_draft = DRAFT_MOST;
        o.predicted = predicted;
        o.n_predicted = like->n_id;
    }
    o.sampling.seed = 11;
    k->set(&o);
    *x = (struct said){ .eng = eng };
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    ck_assert_msg(generate(s, &o, prompt, N_PROMPT, r, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(session_pos(s), N_PROMPT + r->n_decoded);
    ck_assert_mem_eq(session_tokens(s) + N_PROMPT, x->id, r->n_decoded * sizeof *x->id);
    session_destroy(s);
}

static uint32_t compare(struct engine *eng, const struct kind *k)
{
    static struct said plain, drafted;
    struct gen_result a, b;
    answer(eng, k, NULL, &plain, &a);
    answer(eng, k, &plain, &drafted, &b);
    ck_assert_uint_eq(a.n_guessed, 0);
    ck_assert_uint_le(b.n_right, b.n_guessed);
    ck_assert_msg(a.n_tokens == b.n_tokens && a.n_decoded == b.n_decoded && a.reason == b.reason,
                  "%s: %u tokens, %u evaluated, %s; with guesses %u, %u, %s", k->what, a.n_tokens, a.n_decoded,
                  gen_reason_json(a.reason), b.n_tokens, b.n_decoded, gen_reason_json(b.reason));
    ck_assert_msg(plain.n_id == drafted.n_id && memcmp(plain.id, drafted.id, plain.n_id * sizeof *plain.id) == 0, "%s: other tokens", k->what);
    ck_assert_msg(plain.n_text == drafted.n_text && memcmp(plain.text, drafted.text, plain.n_text) == 0, "%s: another text", k->what);
    ck_assert_msg(plain.logits == drafted.logits, "%s: on_token saw other logits", k->what);
    ck_assert_msg(a.fingerprint == b.fingerprint, "%s: logits %08x, with guesses %08x", k->what, a.fingerprint, b.fingerprint);
    return b.n_right;
}

static void compare_all(const char *preset, const char *tier)
{
    static const char text[] = "root ::= ([a-h] [ac-h] [i-p] [ik-p])*";
    struct engine *eng = open_model(preset, tier, true);
    struct vocab_source src = { .n_vocab = letters_vocab = engine_info(eng)->n_vocab, .token = byte_token };
    struct vocab_index *v;
    struct err e = { 0 };
    uint32_t right = 0;
    ck_assert_msg(vocab_index_create(&src, &v, &e) == 0, "%s", e.msg);
    ck_assert_msg(grammar_from_gbnf(v, text, strlen(text), &letters, &e) == 0, "%s", e.msg);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        uint32_t n = compare(eng, &kinds[i]);
        ck_assert_msg(n || kinds[i].set != within_a_grammar, "%s: no guess within a grammar was right", preset);
        right += n;
    }
    ck_assert_msg(right > 0, "%s on %s: no guess was right", preset, tier);
    grammar_unref(letters);
    vocab_index_destroy(v);
    engine_close(eng);
}

START_TEST(dense_on_cpu) { compare_all("tiny-qwen3", "cpu"); }
END_TEST
START_TEST(windows_on_cpu) { compare_all("tiny-gemma3", "cpu"); }
END_TEST
START_TEST(experts_on_cpu) { compare_all("tiny-gpt-oss", "cpu"); }
END_TEST
START_TEST(recurrent_on_cpu) { compare_all("tiny-qwen35", "cpu"); }
END_TEST
/* Kernels of the devices, whose decode and prompt streams differ in arithmetic. */
START_TEST(on_lockstep)
{
    static const char *const preset[] = { "tiny-qwen3", "tiny-qwen35" };
    for (int i = 0; i < 2; i++) {
        struct engine *eng = open_model(preset[i], "lockstep", true);
        ck_assert_uint_gt(compare(eng, &kinds[ARRAY_LEN(kinds) - 1]), 0);
        engine_close(eng);
    }
}
END_TEST

/* What an answer with guesses leaves in a session is what one without does: the next question's answer tells. */
START_TEST(a_session_goes_on)
{
    static const char *const preset[] = { "tiny-qwen3", "tiny-qwen35" };
    for (int i = 0; i < 2; i++) {
        struct engine *eng = open_model(preset[i], "cpu", true);
        struct said x[2];
        int32_t predicted[N_CTX + 1];
        uint32_t right = 0;
        for (int draft = 0; draft < 2; draft++) {
            struct gen_opts o = { .sampling = sampler_defaults(), .ignore_eos = true, .on_token = on_token, .user = &x[draft] };
            struct gen_result r;
            struct session *s;
            struct err e = { 0 };
            int32_t text[N_CTX] = { 7, 8, 9, 7, 8, 9, 7, 8 };
            uint32_t n = 8;
            o.sampling.temp = 0;
            if (draft) {
                mislead(predicted, &x[0]);
                o.n_draft = DRAFT_MOST;
                o.predicted = predicted;
                o.n_predicted = x[0].n_id;
            }
            x[draft] = (struct said){ .eng = eng };
            ck_assert_int_eq(session_create(eng, &s, &e), 0);
            for (uint32_t turn = 0; turn < 4; turn++) {
                uint32_t had = x[draft].n_id;
                x[draft].cancel_at = had + 9 + turn; /* one of them ends with a guess that is wrong */
                flag_set(&x[draft].cancel, false);
                session_set_cancel(s, &x[draft].cancel);
                ck_assert_msg(generate(s, &o, text, n, &r, &e) == 0, "%s", e.msg);
                ck_assert_msg(!turn || r.n_reused >= n - 4, "turn %u: %u of %u reused", turn, r.n_reused, n);
                right += r.n_right;
                memcpy(text + n, x[draft].id + had, (x[draft].n_id - had) * sizeof *text);
                n += x[draft].n_id - had;
                text[n++] = 33;
                text[n++] = 34;
            }
            session_destroy(s);
        }
        ck_assert_uint_eq(x[0].n_id, x[1].n_id);
        ck_assert_mem_eq(x[0].id, x[1].id, sizeof x[0].id);
        ck_assert_uint_gt(right, 0);
        engine_close(eng);
    }
}
END_TEST

/* The answer's own text is told beforehand. */
START_TEST(a_prediction_is_a_place_to_look)
{
    struct engine *eng = open_model("tiny-qwen3", "cpu", false);
    struct said plain, drafted;
    struct gen_result r;
    struct session *s;
    struct err e = { 0 };
    static const int32_t prompt[] = { 5, 99, 31 };
    struct gen_opts o = { .sampling = sampler_defaults(), .ignore_eos = true, .on_token = on_token, .n_max = 30, .user = &plain };
    o.sampling.temp = 1; /* nothing repeats itself */
    o.sampling.seed = 5;
    plain = (struct said){ .eng = eng };
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    ck_assert_int_eq(generate(s, &o, prompt, 3, &r, &e), 0);
    o.n_draft = DRAFT_MOST;
    o.predicted = plain.id;
    o.n_predicted = plain.n_id;
    o.user = &drafted;
    drafted = (struct said){ .eng = eng };
    session_reset(s);
    ck_assert_int_eq(generate(s, &o, prompt, 3, &r, &e), 0);
    ck_assert_mem_eq(plain.id, drafted.id, sizeof plain.id);
    ck_assert_uint_gt(r.n_right, 0);
    session_destroy(s);
    engine_close(eng);
}
END_TEST

/* Without room for a second state there is nothing to go back to. */
START_TEST(recurrent_models_do_without)
{
    struct engine *eng = open_model("tiny-qwen35", "cpu", false);
    ck_assert_uint_eq(engine_draft_rows(eng), 1);
    ck_assert_uint_eq(compare(eng, &kinds[ARRAY_LEN(kinds) - 2]), 0);
    engine_close(eng);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    return RUN_TESTS("generate_draft", dense_on_cpu, windows_on_cpu, experts_on_cpu, recurrent_on_cpu, on_lockstep, a_session_goes_on, a_prediction_is_a_place_to_look,
                     recurrent_models_do_without);
}
