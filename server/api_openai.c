/* What chats and completions of OpenAI's API have in common: the head of an answer and of each event, usage, timings as
 * llama.cpp's server tells them, warnings. */
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "server/api_impl.h"

void api_openai_start(struct api_exchange *x, const char *prefix, const char *object)
{
    struct out *o = &x->head;
    out_text(o, "{\"id\":\"");
    out_text(o, prefix);
    out_escaped(o, x->id, strlen(x->id));
    out_text(o, "\",\"object\":\"");
    out_text(o, object);
    out_text(o, "\",\"created\":");
    out_int(o, time(NULL));
    out_text(o, ",\"model\":");
    out_string(o, x->api->name, strlen(x->api->name));
    out_text(o, ",\"system_fingerprint\":");
    out_string(o, x->api->fingerprint, strlen(x->api->fingerprint));
    out_text(o, ",\"choices\":[");
}

struct out *api_event_begin(struct api_choice *c)
{
    struct out *o = &c->x->out;
    out_text(o, "data: ");
    out_join(o, &c->x->head);
    out_text(o, "{\"index\":");
    out_int(o, c->index);
    return o;
}

void api_event_end(struct api_choice *c)
{
    out_text(&c->x->out, c->x->r.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void real_field(struct out *o, const char *name, double v)
{
    out_text(o, name);
    out_real(o, v);
}

static void int_field(struct out *o, const char *name, uint64_t v)
{
    out_text(o, name);
    out_int(o, (int64_t)v);
}

void api_write_timings(struct out *o, const struct api_usage *u)
{
    double prompt_ms = (double)u->prompt_ns / 1e6, ms = (double)u->decode_ns / 1e6;
    uint32_t evaluated = u->prompt_tokens - u->reused_tokens;
    uint32_t evaluations = u->generated_tokens ? u->generated_tokens - 1 : 0;
    int_field(o, ",\"timings\":{\"cache_n\":", u->reused_tokens);
    int_field(o, ",\"prompt_n\":", evaluated);
    real_field(o, ",\"prompt_ms\":", prompt_ms);
    real_field(o, ",\"prompt_per_second\":", prompt_ms > 0 ? evaluated / prompt_ms * 1e3 : 0);
    int_field(o, ",\"predicted_n\":", u->generated_tokens);
    real_field(o, ",\"predicted_ms\":", ms);
    real_field(o, ",\"predicted_per_second\":", evaluations && ms > 0 ? evaluations / ms * 1e3 : 0);
    real_field(o, ",\"queued_ms\":", (double)u->queued_ns / 1e6);
    out_text(o, "}");
}

static void write_usage(const struct api_exchange *x, struct out *o)
{
    const struct api_usage *u = &x->usage;
    int_field(o, ",\"usage\":{\"prompt_tokens\":", u->prompt_tokens);
    int_field(o, ",\"completion_tokens\":", u->generated_tokens);
    int_field(o, ",\"total_tokens\":", (uint64_t)u->prompt_tokens + u->generated_tokens);
    int_field(o, ",\"prompt_tokens_details\":{\"cached_tokens\":", u->reused_tokens);
    int_field(o, "},\"completion_tokens_details\":{\"reasoning_tokens\":", x->n_thought);
    int_field(o, ",\"accepted_prediction_tokens\":", x->n_right);
    int_field(o, ",\"rejected_prediction_tokens\":", x->n_guessed - x->n_right);
    out_text(o, "}}");
}

/* What was passed over in the request. */
void api_write_warnings(const struct api_exchange *x, struct out *o)
{
    size_t i;
    json_t *v;
    if (!json_array_size(x->warnings))
        return;
    out_text(o, ",\"warnings\":[");
    json_array_foreach(x->warnings, i, v)
    {
        out_text(o, i ? "," : "");
        out_string(o, json_string_value(v), json_string_length(v));
    }
    out_text(o, "]");
}

/* With the times of this choice. */
void api_openai_last(struct api_choice *c, const char *inside)
{
    struct api_usage u = { .prompt_tokens = c->prompt->n, .reused_tokens = c->n_reused,
                           .generated_tokens = c->result.n_tokens, .queued_ns = c->queued_ns,
                           .prompt_ns = c->prompt_ns, .decode_ns = c->decode_ns };
    struct out *o = api_event_begin(c);
    out_text(o, inside);
    out_text(o, ",\"logprobs\":null,\"finish_reason\":\"");
    out_text(o, c->finish);
    out_text(o, "\"}]");
    if (c->x->r.include_usage)
        out_text(o, ",\"usage\":null");
    api_write_timings(o, &u);
    api_write_warnings(c->x, o);
    out_text(o, "}\n\n");
}

void api_openai_end(struct api_exchange *x)
{
    struct out *o = &x->out;
    if (x->r.include_usage) {
        out_text(o, "data: ");
        out_join(o, &x->head);
        out_text(o, "]");
        write_usage(x, o);
        out_text(o, "}\n\n");
    }
    out_text(o, "data: [DONE]\n\n");
}

void api_openai_whole(struct api_exchange *x, void (*one)(struct api_choice *c))
{
    struct out *o = &x->out;
    out_join(o, &x->head);
    for (uint32_t i = 0; i < x->n_choices; i++) {
        out_text(o, i ? ",{\"index\":" : "{\"index\":");
        out_int(o, i);
        one(&x->choices[i]);
        out_text(o, "}");
    }
    out_text(o, "]");
    write_usage(x, o);
    api_write_timings(o, &x->usage);
    api_write_warnings(x, o);
    out_text(o, "}");
}

/* html.spec.whatwg.org, 9.2.6 */
void api_comment(struct api_exchange *x)
{
    const struct api_choice *c = &x->choices[0];
    struct out *o = &x->out;
    out_text(o, ": prompt ");
    out_int(o, c->n_evaluated);
    out_text(o, "/");
    out_int(o, c->prompt->n);
    out_text(o, " tokens, reused ");
    out_int(o, c->n_reused);
    out_text(o, "\n\n");
}

/* With `return_progress` a chunk with the progress as llama.cpp's server tells it (tools/server/README.md there). */
void api_openai_ping(struct api_exchange *x)
{
    const struct api_choice *c = &x->choices[0];
    if (!x->r.progress) {
        api_comment(x);
        return;
    }
    struct out *o = api_event_begin(&x->choices[0]);
    out_text(o, x->r.n_messages ? ",\"delta\":{}" : ",\"text\":\"\"");
    out_text(o, ",\"logprobs\":null,\"finish_reason\":null}],\"prompt_progress\":{\"total\":");
    out_int(o, c->prompt->n);
    out_text(o, ",\"cache\":");
    out_int(o, c->n_reused);
    out_text(o, ",\"processed\":");
    out_int(o, c->n_evaluated);
    out_text(o, ",\"time_ms\":");
    out_int(o, (int64_t)((clock_ns() - x->began_ns) / 1000000));
    out_text(o, "}}\n\n");
}

void api_openai_broken(struct api_exchange *x, const struct api_problem *p)
{
    out_text(&x->out, "data: ");
    api_problem_write(p, &x->out);
    out_text(&x->out, "\n\n");
}
