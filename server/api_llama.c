/* What clients of llama.cpp's server ask of it beside OpenAI's API (ggml-org/llama.cpp, tools/server/README.md): GET /props and
 * /slots, POST /apply-template. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_impl.h"

static void put_real(struct out *o, const char *name, float v)
{
    out_text(o, name);
    out_real(o, (double)v);
}

static void put_int(struct out *o, const char *name, int64_t v)
{
    out_text(o, name);
    out_int(o, v);
}

/* What holds where a request says nothing. */
static void put_params(const struct api *a, struct out *o)
{
    const struct sampler_params *s = &a->defaults.sampling;
    put_int(o, "\"params\":{\"n_predict\":", a->defaults.max_tokens ? (int64_t)a->defaults.max_tokens : -1);
    put_int(o, ",\"seed\":", s->seed);
    put_real(o, ",\"temperature\":", s->temp);
    put_int(o, ",\"top_k\":", s->top_k);
    put_real(o, ",\"top_p\":", s->top_p);
    put_real(o, ",\"min_p\":", s->min_p);
    put_real(o, ",\"typical_p\":", s->typical_p);
    put_real(o, ",\"xtc_probability\":", s->xtc_probability);
    put_real(o, ",\"xtc_threshold\":", s->xtc_threshold);
    put_int(o, ",\"repeat_last_n\":", s->repeat_last_n);
    put_real(o, ",\"repeat_penalty\":", s->repeat_penalty);
    put_real(o, ",\"presence_penalty\":", s->presence_penalty);
    put_real(o, ",\"frequency_penalty\":", s->frequency_penalty);
    put_real(o, ",\"dry_multiplier\":", s->dry_multiplier);
    out_text(o, "}");
}

void api_props(struct api_exchange *x, const struct api_call *c)
{
    const struct api *a = x->api;
    const struct engine_info *in = engine_info(a->o.eng);
    struct out *o = &x->out;
    bool guessed;
    (void)c;
    const char *format = engine_chat_format(a->o.eng, &guessed);
    put_int(o, "{\"default_generation_settings\":{\"id\":0,\"id_task\":-1,\"n_ctx\":", in->n_ctx);
    out_text(o, ",\"speculative\":false,\"is_processing\":false,");
    put_params(a, o);
    put_int(o, "},\"total_slots\":", in->n_slots);
    out_text(o, ",\"model_alias\":");
    out_string(o, a->name, strlen(a->name));
    out_text(o, ",\"model_path\":");
    out_string(o, in->path ? in->path : "", in->path ? strlen(in->path) : 0);
    out_text(o, ",\"modalities\":{\"vision\":false,\"audio\":false},\"chat_format\":");
    out_string(o, format, strlen(format));
    out_text(o, ",\"chat_template_caps\":{\"supports_tools\":");
    out_text(o, a->has_tools ? "true" : "false");
    out_text(o, "},\"build_info\":");
    out_string(o, a->fingerprint, strlen(a->fingerprint));
    out_text(o, ",\"is_sleeping\":false}");
    api_answer(x, 200);
}

/* How many of them are busy is what the scheduler tells; which ones, nobody outside of it knows: the first. */
void api_slots(struct api_exchange *x, const struct api_call *c)
{
    const struct api *a = x->api;
    const struct engine_info *in = engine_info(a->o.eng);
    struct sched_stats s = sched_stats(a->o.sched);
    struct out *o = &x->out;
    (void)c;
    out_text(o, "[");
    for (uint32_t i = 0; i < in->n_slots; i++) {
        put_int(o, i ? ",{\"id\":" : "{\"id\":", i);
        put_int(o, ",\"n_ctx\":", in->n_ctx);
        out_text(o, ",\"speculative\":false,\"is_processing\":");
        out_text(o, i < s.running ? "true," : "false,");
        put_params(a, o);
        out_text(o, "}");
    }
    out_text(o, "]");
    api_answer(x, 200);
}

/* The text as the model reads it, with its control tokens. */
void api_apply_template(struct api_exchange *x, const struct api_call *c)
{
    struct api_problem p;
    struct err e = { 0 };
    char *text;
    size_t n;
    if (api_converse_read(x, c, api_request_chat, &p) || api_converse_prompt(x, &p)) {
        api_fail(x, &p);
        return;
    }
    int rc = engine_decode(x->api->o.eng, x->prompts[0].ids, x->prompts[0].n, ENGINE_SHOW_SPECIAL, &text, &n, &e);
    if (rc) {
        api_problem_of(rc, &e, NULL, &p);
        api_fail(x, &p);
        return;
    }
    out_text(&x->out, "{\"prompt\":");
    out_string(&x->out, text, n);
    out_text(&x->out, "}");
    free(text);
    api_answer(x, 200);
}
