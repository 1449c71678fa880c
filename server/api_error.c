/* Errors in OpenAI's form, and of which kind an error is. */
#include <errno.h>
#include <string.h>

#include "base/ckd.h"
#include "server/api_impl.h"

static const char *type_of(int status)
{
    static const struct {
        int status;
        const char *type;
    } types[] = {
        { 401, "authentication_error" }, { 403, "permission_error" }, { 404, "not_found_error" },
        { 408, "timeout_error" },        { 429, "rate_limit_error" }, { 503, "unavailable_error" },
    };
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (types[i].status == status)
            return types[i].type;
    return status >= 500 ? "server_error" : "invalid_request_error";
}

static void put_or_null(struct out *o, const char *name, const char *s)
{
    out_text(o, name);
    if (s && *s)
        out_string(o, s, strlen(s));
    else
        out_text(o, "null");
}

static void write_error(struct out *o, int status, const char *param, const char *code, const char *message)
{
    out_text(o, "{\"error\":{\"message\":");
    out_string(o, message, strlen(message));
    put_or_null(o, ",\"type\":", type_of(status));
    put_or_null(o, ",\"param\":", param);
    put_or_null(o, ",\"code\":", code);
    out_text(o, "}}");
}

void api_problem_write(const struct api_problem *p, struct out *o)
{
    write_error(o, p->status, p->param, p->code, p->message);
}

void api_problem_of(int rc, const struct err *e, const char *param, struct api_problem *p)
{
    static const struct {
        int rc, status;
        const char *code;
    } kinds[] = {
        { -EINVAL, 400, "invalid_value" }, { -ENOTSUP, 400, "unsupported" },  { -ENOENT, 400, "unsupported" },
        { -E2BIG, 400, "too_large" },      { -EBUSY, 429, "queue_full" },     { -ESHUTDOWN, 503, "shutting_down" },
        { -ENOMEM, 503, "out_of_memory" }, { -ETIME, 408, "timeout" },
    };
    size_t i = 0;
    while (i < ARRAY_LEN(kinds) && kinds[i].rc != rc)
        i++;
    bool known = i < ARRAY_LEN(kinds);
    api_refuse(p, known ? kinds[i].status : 500, known ? kinds[i].code : "engine_failed", param, "%s", e->msg);
    p->retry_after = rc == -EBUSY; /* who knows better says so */
}
