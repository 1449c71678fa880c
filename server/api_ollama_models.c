/* What Ollama's clients ask of models: GET /api/tags, /api/ps, /api/version, POST /api/show (ollama/ollama, docs/api.md and
 * api/types.go). One model is there, and it is loaded. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "engine/answer/answer.h"
#include "server/api_impl.h"

static void put(struct out *o, const char *name, const char *value)
{
    out_text(o, name);
    out_string(o, value ? value : "", value ? strlen(value) : 0);
}

static void put_time(struct out *o, const char *name, int64_t seconds)
{
    time_t t = (time_t)seconds;
    struct tm tm;
    char text[48];
    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    put(o, name, text);
}

/* Clients show it, none can look anything up by it: so it is made of what tells models apart here. */
static void put_digest(const struct api *a, struct out *o)
{
    const struct engine_info *in = engine_info(a->o.eng);
    char text[65];
    for (unsigned i = 0; i < 4; i++) { /* FNV-1a: isthe.com/chongo/tech/comp/fnv */
        uint64_t h = 0xcbf29ce484222325ull + i;
        for (const char *s = a->name; *s; s++)
            h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
        h = (h ^ in->file_bytes) * 0x100000001b3ull;
        h = (h ^ in->n_params) * 0x100000001b3ull;
        snprintf(text + 16 * i, 17, "%016llx", (unsigned long long)h);
    }
    put(o, ",\"digest\":", text);
}

static void put_details(const struct api *a, struct out *o)
{
    const struct engine_info *in = engine_info(a->o.eng);
    char size[32];
    bool billions = in->n_params >= 1000000000;
    snprintf(size, sizeof size, "%.1f%c", (double)in->n_params / (billions ? 1e9 : 1e6), billions ? 'B' : 'M');
    out_text(o, ",\"details\":{\"parent_model\":\"\",\"format\":\"gguf\"");
    put(o, ",\"family\":", in->family);
    put(o, ",\"families\":[", in->family);
    put(o, "],\"parameter_size\":", size);
    put(o, ",\"quantization_level\":", in->weights);
    out_text(o, "}");
}

/* {"name":.. and the rest, without its end. */
static void put_model(const struct api *a, struct out *o)
{
    put(o, "{\"name\":", a->name);
    put(o, ",\"model\":", a->name);
    out_text(o, ",\"size\":");
    out_int(o, (int64_t)engine_info(a->o.eng)->file_bytes);
    put_digest(a, o);
    put_details(a, o);
}

void api_ollama_tags(struct api_exchange *x, const struct api_call *c)
{
    struct out *o = &x->out;
    (void)c;
    out_text(o, "{\"models\":[");
    put_model(x->api, o);
    put_time(o, ",\"modified_at\":", x->api->created);
    out_text(o, "}]}");
    api_answer(x, 200);
}

void api_ollama_ps(struct api_exchange *x, const struct api_call *c)
{
    const struct engine_info *in = engine_info(x->api->o.eng);
    struct out *o = &x->out;
    (void)c;
    out_text(o, "{\"models\":[");
    put_model(x->api, o);
    put_time(o, ",\"expires_at\":", 253402300799); /* 9999-12-31: it stays */
    out_text(o, ",\"size_vram\":");
    out_int(o, (int64_t)in->weight_bytes);
    out_text(o, ",\"context_length\":");
    out_int(o, in->n_ctx);
    out_text(o, "}]}");
    api_answer(x, 200);
}

void api_ollama_version(struct api_exchange *x, const struct api_call *c)
{
    (void)c;
    out_text(&x->out, "{\"version\":\"" API_OLLAMA_VERSION "\"}");
    api_answer(x, 200);
}

/* ":latest" is what Ollama's clients put behind a name that has no tag. */
static void put_info(const struct api *a, struct out *o)
{
    const struct engine_info *in = engine_info(a->o.eng);
    const struct {
        const char *name;
        uint64_t v;
    } figures[] = {
        { "context_length", in->n_ctx }, { "embedding_length", in->n_embd }, { "block_count", in->n_layer },
    };
    const char *family = in->family ? in->family : "";
    put(o, ",\"model_info\":{\"general.architecture\":", family);
    put(o, ",\"general.basename\":", in->model_name);
    out_text(o, ",\"general.parameter_count\":");
    out_int(o, (int64_t)in->n_params);
    for (size_t i = 0; i < ARRAY_LEN(figures); i++) {
        out_text(o, ",\"");
        out_escaped(o, family, strlen(family));
        out_text(o, ".");
        out_text(o, figures[i].name);
        out_text(o, "\":");
        out_int(o, (int64_t)figures[i].v);
    }
    out_text(o, "}");
}

static int show(struct api_exchange *x, const json_t *body, struct api_problem *p)
{
    const struct api *a = x->api;
    struct fields f = fields_at(body, p, "%s", "");
    const char *name = NULL;
    bool guessed;
    struct out *o = &x->out;
    int rc;
    if ((rc = field_string(&f, "name", &name)) < 0 || (rc = field_string(&f, "model", &name)) < 0)
        return rc;
    if (!name)
        return api_refuse(p, 400, "missing_field", "model", "the request has no 'model'");
    if (!api_names_has(a->defaults.names, name))
        return api_names_refuse(a->defaults.names, name, p);
    out_text(o, "{\"license\":\"\",\"modelfile\":\"\",\"parameters\":\"\"");
    put(o, ",\"template\":", engine_chat_format(a->o.eng, &guessed));
    put_details(a, o);
    put_info(a, o);
    put_time(o, ",\"modified_at\":", a->created);
    out_text(o, ",\"capabilities\":[");
    if (engine_info(a->o.eng)->pooling) {
        out_text(o, "\"embedding\"");
    } else {
        out_text(o, "\"completion\"");
        out_text(o, a->can_infill ? ",\"insert\"" : "");
        out_text(o, a->has_tools ? ",\"tools\"" : "");
        out_text(o, answer_think_end(engine_chat_template(a->o.eng)) ? ",\"thinking\"" : "");
    }
    out_text(o, "]}");
    return 0;
}

void api_ollama_show(struct api_exchange *x, const struct api_call *c)
{
    api_answer_with(x, c, show);
}
