/* Filling in the middle: prompts of models that have tokens for it, in the order prefix, suffix, middle (Bavarian et al.,
 * "Efficient Training of Language Models to Fill in the Middle", arXiv 2207.14255, section 3: PSM), and POST /infill, which
 * asks for nothing else. The tokens have different names in different vocabularies; they are found by their texts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_impl.h"

/* Qwen2.5-Coder's technical report (arXiv 2409.12186, table 1), StarCoder's (arXiv 2305.06161, 3.5), DeepSeek-Coder's
 * README and Code Llama's tokenizer: before, after, middle, and what stands before a file of the project. */
static const char *const marks[][4] = {
    { "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>" },
    { "<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>" },
    { "<fim-prefix>", "<fim-suffix>", "<fim-middle>", NULL },
    { "<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", NULL },
    { "▁<PRE>", "▁<SUF>", "▁<MID>", NULL },
};
enum { BEFORE, AFTER, MIDDLE, FILE_MARK };

static bool is_token(const struct engine *eng, const char *text)
{
    int32_t *ids = NULL;
    uint32_t n = 0;
    bool is = text && engine_encode(eng, text, strlen(text), ENGINE_PARSE_SPECIAL, &ids, &n, NULL) == 0 && n == 1;
    free(ids);
    return is;
}

static const char *const *find_marks(const struct engine *eng)
{
    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        if (is_token(eng, marks[i][BEFORE]) && is_token(eng, marks[i][AFTER]) && is_token(eng, marks[i][MIDDLE]))
            return marks[i];
    return NULL;
}

bool api_can_infill(const struct engine *eng)
{
    return find_marks(eng) != NULL;
}

/* Appends the text's tokens. */
static int add(const struct engine *eng, struct engine_prompt *p, const char *text, unsigned flags, struct err *e)
{
    int32_t *ids = NULL;
    uint32_t n = 0;
    int rc = engine_encode(eng, text, strlen(text), flags, &ids, &n, e);
    int32_t *all = rc ? NULL : realloc(p->ids, (p->n + (size_t)n + 1) * sizeof *all);
    if (!rc && !all)
        rc = err_set(e, -ENOMEM, "out of memory for the prompt");
    if (all) {
        p->ids = all;
        memcpy(all + p->n, ids, n * sizeof *all);
        p->n += n;
    }
    free(ids);
    return rc;
}

static int add_extra(const struct engine *eng, const char *const *mark, const struct api_extra *x, struct engine_prompt *p,
                     struct err *e)
{
    bool marked = is_token(eng, mark[FILE_MARK]);
    int rc = marked ? add(eng, p, mark[FILE_MARK], ENGINE_PARSE_SPECIAL, e) : add(eng, p, "\n\n--- ", 0, e);
    if (!rc)
        rc = add(eng, p, x->name ? x->name : "snippet", 0, e);
    if (!rc)
        rc = add(eng, p, marked ? "\n" : " ---\n\n", 0, e);
    return rc ? rc : add(eng, p, x->text, 0, e);
}

int api_infill_prompt(const struct engine *eng, const struct api_request *r, const char *before, struct engine_prompt *p,
                      struct err *e)
{
    const char *const *mark = find_marks(eng);
    if (!mark)
        return err_set(e, -ENOTSUP, "the vocabulary of this model has no tokens for filling in the middle");
    int rc = add(eng, p, "", ENGINE_ADD_SPECIAL, e); /* what a prompt of this model begins with */
    for (uint32_t i = 0; i < r->n_extra && !rc; i++)
        rc = add_extra(eng, mark, &r->extra[i], p, e);
    const struct {
        const char *text;
        unsigned flags;
    } parts[] = {
        { mark[BEFORE], ENGINE_PARSE_SPECIAL }, { before, 0 },
        { mark[AFTER], ENGINE_PARSE_SPECIAL },  { r->suffix, 0 },
        { mark[MIDDLE], ENGINE_PARSE_SPECIAL }, { r->middle ? r->middle : "", 0 },
    };
    for (size_t i = 0; i < ARRAY_LEN(parts) && !rc; i++)
        rc = add(eng, p, parts[i].text, parts[i].flags, e);
    return rc;
}

/* ---- POST /infill: answers as llama.cpp's server has them ---- */

static void put_head(struct api_exchange *x, const struct out *text, bool stop)
{
    struct out *o = &x->out;
    out_text(o, "{\"index\":0,\"content\":\"");
    if (text)
        out_join(o, text);
    out_text(o, stop ? "\",\"stop\":true" : "\",\"stop\":false");
}

static void put_end(struct api_exchange *x)
{
    const struct api_choice *c = &x->choices[0];
    const struct api_usage *u = &x->usage;
    struct out *o = &x->out;
    bool word = c->result.reason == GEN_STOP_STRING, limit = strcmp(c->finish, "length") == 0;
    out_text(o, ",\"model\":");
    out_string(o, x->api->name, strlen(x->api->name));
    out_text(o, ",\"tokens_predicted\":");
    out_int(o, u->generated_tokens);
    out_text(o, ",\"tokens_evaluated\":");
    out_int(o, u->prompt_tokens);
    out_text(o, ",\"tokens_cached\":");
    out_int(o, u->reused_tokens);
    out_text(o, ",\"truncated\":false,\"stop_type\":\"");
    out_text(o, word ? "word" : limit ? "limit" : "eos");
    out_text(o, "\",\"stopping_word\":");
    const char *stop = word && c->result.stop_index < x->r.n_stop ? x->r.stop[c->result.stop_index] : "";
    out_string(o, stop, strlen(stop));
    api_write_timings(o, u);
    out_text(o, "}");
}

static void text(struct api_choice *c)
{
    out_text(&c->x->out, "data: ");
    put_head(c->x, &c->text, false);
    out_text(&c->x->out, "}\n\n");
}

static void end_part(struct api_choice *c, bool complete)
{
    (void)complete;
    if (!c->x->r.stream)
        out_join(&c->parts[0], &c->text);
}

static void last(struct api_choice *c)
{
    (void)c;
}

static void end(struct api_exchange *x)
{
    out_text(&x->out, "data: ");
    put_head(x, NULL, true);
    put_end(x);
    out_text(&x->out, "\n\n");
}

static void whole(struct api_exchange *x)
{
    put_head(x, &x->choices[0].parts[0], true);
    put_end(x);
}

static const struct api_part_form parts = { NULL, text, end_part };
static const struct api_form form = {
    "text/event-stream", NULL, api_parts_open, NULL, api_parts_put, api_parts_close, api_parts_flush, last, end, whole,
    api_openai_broken, api_comment, api_parts_destroy, &parts,
};

void api_infill(struct api_exchange *x, const struct api_call *c)
{
    api_converse(x, c, api_request_infill, &form);
}
