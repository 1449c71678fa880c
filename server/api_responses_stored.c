/* Responses that are kept: GET and DELETE /v1/responses/{id}, GET /v1/responses/{id}/input_items, in the forms of
 * platform.openai.com/docs/api-reference/responses (get, delete, input-items), as openai/openai-python reads them
 * (src/openai/resources/responses/responses.py and input_items.py, types/responses/response_item_list.py). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "server/api_impl.h"

enum { DEFAULT_LIMIT = 20, MAX_LIMIT = 100 };

static void not_there(struct api_exchange *x, const char *id)
{
    struct api_problem p;
    api_refuse(&p, 404, "response_not_found", "response_id",
               "there is no response '%.80s': it was not stored, was deleted, or had to make room", id);
    api_fail(x, &p);
}

/* ---- a list's arguments ---- */

/* The value of an argument of the query, "" if it is not there. Values that this API has need no %XX. */
static void argument(const char *query, const char *name, char *value, size_t cap)
{
    size_t n = strlen(name);
    *value = 0;
    for (const char *s = query; s && *s; s += strcspn(s, "&"), s += *s == '&')
        if (strncmp(s, name, n) == 0 && s[n] == '=')
            snprintf(value, cap, "%.*s", (int)strcspn(s + n + 1, "&"), s + n + 1);
}

struct page {
    unsigned limit;
    bool falling;            /* the newest first */
    char after[64];
};

static int read_page(struct api_exchange *x, const char *query, struct page *pg)
{
    char limit[16], order[16], *end = limit;
    struct api_problem p;
    argument(query, "limit", limit, sizeof limit);
    argument(query, "order", order, sizeof order);
    argument(query, "after", pg->after, sizeof pg->after);
    unsigned long n = *limit ? strtoul(limit, &end, 10) : DEFAULT_LIMIT;
    bool wrong_limit = *end || n < 1 || n > MAX_LIMIT;
    if (!*limit)
        wrong_limit = false;
    pg->limit = (unsigned)n;
    pg->falling = strcmp(order, "asc") != 0;
    if (!wrong_limit && (!*order || !pg->falling || strcmp(order, "desc") == 0))
        return 0;
    if (wrong_limit)
        api_refuse(&p, 400, NULL, "limit", "'limit' is '%s', expected 1 to %d", limit, MAX_LIMIT);
    else
        api_refuse(&p, 400, NULL, "order", "'order' is '%s', expected asc or desc", order);
    api_fail(x, &p);
    return -1;
}

/* ---- items ---- */

/* An item as the API writes it: with an id, a type, and its content in parts. */
static int complete_item(json_t *item, const char *id, size_t i)
{
    char made[80];
    const char *type = json_string_value(json_object_get(item, "type"));
    const char *role = json_string_value(json_object_get(item, "role"));
    json_t *content = json_object_get(item, "content");
    bool message = !type || strcmp(type, "message") == 0;
    snprintf(made, sizeof made, "%s_%.40s_%zu", message ? "msg" : "item", id + strcspn(id, "_") + 1, i);
    int rc = json_is_string(json_object_get(item, "id")) ? 0 : json_object_set_new(item, "id", json_string(made));
    if (!rc && !type)
        rc = json_object_set_new(item, "type", json_string("message"));
    if (!rc && message && json_is_string(content)) {
        const char *part = role && strcmp(role, "assistant") == 0 ? "output_text" : "input_text";
        json_t *parts = json_pack("[{s:s,s:O}]", "type", part, "text", content);
        rc = parts ? json_object_set_new(item, "content", parts) : -1;
    }
    return rc;
}

static const char *id_at(const json_t *items, size_t i)
{
    const char *id = json_string_value(json_object_get(json_array_get(items, i), "id"));
    return id ? id : "";
}

/* Position k of the list, in the order that is asked for. */
static size_t place(const struct page *pg, size_t n, size_t k)
{
    return pg->falling ? n - 1 - k : k;
}

static void write_id(struct out *o, const char *name, const char *id)
{
    out_text(o, name);
    if (*id)
        out_string(o, id, strlen(id));
    else
        out_text(o, "null");
}

static int write_items(struct api_exchange *x, const json_t *items, const struct page *pg)
{
    struct out *o = &x->out;
    size_t n = json_array_size(items), from = 0;
    while (*pg->after && from < n && strcmp(id_at(items, place(pg, n, from)), pg->after) != 0)
        from++;
    from = *pg->after && from < n ? from + 1 : *pg->after ? n : 0;
    size_t to = from + MIN(n - from, (size_t)pg->limit);
    out_text(o, "{\"object\":\"list\",\"data\":[");
    for (size_t k = from; k < to; k++) {
        char *text = json_write(json_array_get(items, place(pg, n, k)), JSON_COMPACT);
        if (!text)
            return -1;
        out_text(o, k > from ? "," : "");
        out_text(o, text);
        free(text);
    }
    write_id(o, "],\"first_id\":", to > from ? id_at(items, place(pg, n, from)) : "");
    write_id(o, ",\"last_id\":", to > from ? id_at(items, place(pg, n, to - 1)) : "");
    out_text(o, to < n ? ",\"has_more\":true}" : ",\"has_more\":false}");
    return 0;
}

static void input_items(struct api_exchange *x, const char *id, const char *query)
{
    struct page pg;
    uint32_t n_input = 0;
    if (read_page(x, query, &pg))
        return;
    json_t *items;
    struct api_problem p;
    int rc = api_stored_items(x, id, &items, &n_input);
    if (rc == -ENOENT) {
        not_there(x, id);
        return;
    }
    while (!rc && json_array_size(items) > n_input)
        json_array_remove(items, json_array_size(items) - 1);
    for (size_t i = 0; i < json_array_size(items) && !rc; i++)
        rc = complete_item(json_array_get(items, i), id, i);
    if (!rc)
        rc = write_items(x, items, &pg);
    json_decref(items);
    if (!rc) {
        api_answer(x, 200);
        return;
    }
    api_refuse(&p, 503, "out_of_memory", NULL, "out of memory for the request");
    api_fail(x, &p);
}

/* ---- the response itself ---- */

void api_response_stored(struct api_exchange *x, const char *id, const char *part, const struct api_call *c)
{
    x->owner = c->owner;
    if (part) {
        input_items(x, id, c->query);
    } else if (strcmp(c->method, "DELETE") != 0) {
        if (api_store_get(x->api, x->owner, id, &x->out))
            not_there(x, id);
        else
            api_answer(x, 200);
    } else if (api_store_remove(x->api, x->owner, id)) {
        not_there(x, id);
    } else {
        out_text(&x->out, "{\"id\":");
        out_string(&x->out, id, strlen(id));
        out_text(&x->out, ",\"object\":\"response\",\"deleted\":true}");
        api_answer(x, 200);
    }
}
