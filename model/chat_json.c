/* JSON values as chat templates print them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "model/chat_impl.h"

void chat_json_string(struct chat_out *o, const char *s, size_t n)
{
    static const char *const names = "\"\\\b\f\n\r\t", *const escapes = "\"\\bfnrt";
    size_t from = 0;

    chat_text(o, "\"");
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        const char *name = c ? strchr(names, c) : NULL;
        char buf[8];
        if (c >= 0x20 && !name)
            continue;
        chat_textn(o, s + from, i - from);
        from = i + 1;
        if (name)
            snprintf(buf, sizeof buf, "\\%c", escapes[name - names]);
        else
            snprintf(buf, sizeof buf, "\\u%04x", c);
        chat_text(o, buf);
    }
    chat_textn(o, s + from, n - from);
    chat_text(o, "\"");
}

static void put_number(struct chat_out *o, const json_t *v)
{
    char buf[40];

    if (json_is_integer(v))
        snprintf(buf, sizeof buf, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
    else
        snprintf(buf, sizeof buf, "%g", json_real_value(v));
    chat_text(o, buf);
}

static void new_line(struct chat_out *o, int indent, int depth)
{
    static const char blanks[] = "                                                                ";

    if (indent <= 0)
        return;
    chat_text(o, "\n");
    for (size_t n = (size_t)indent * (size_t)depth, k; n > 0; n -= k) {
        k = n < sizeof blanks - 1 ? n : sizeof blanks - 1;
        chat_textn(o, blanks, k);
    }
}

static void put_json(struct chat_out *o, const json_t *v, int indent, int depth)
{
    const char *sep = indent > 0 ? "," : ", ", *key;
    json_t *item;
    size_t i;
    bool first = true;

    switch (json_typeof(v)) {
    case JSON_NULL: chat_text(o, "null"); break;
    case JSON_TRUE: chat_text(o, "true"); break;
    case JSON_FALSE: chat_text(o, "false"); break;
    case JSON_INTEGER:
    case JSON_REAL: put_number(o, v); break;
    case JSON_STRING: chat_json_string(o, json_string_value(v), json_string_length(v)); break;
    case JSON_ARRAY:
        chat_text(o, "[");
        json_array_foreach(v, i, item)
        {
            chat_text(o, i ? sep : "");
            new_line(o, indent, depth + 1);
            put_json(o, item, indent, depth + 1);
        }
        if (json_array_size(v))
            new_line(o, indent, depth);
        chat_text(o, "]");
        break;
    case JSON_OBJECT:
        chat_text(o, "{");
        json_object_foreach((json_t *)v, key, item)
        {
            chat_text(o, first ? "" : sep);
            first = false;
            new_line(o, indent, depth + 1);
            chat_json_string(o, key, strlen(key));
            chat_text(o, ": ");
            put_json(o, item, indent, depth + 1);
        }
        if (!first)
            new_line(o, indent, depth);
        chat_text(o, "}");
        break;
    }
}

void chat_json(struct chat_out *o, const json_t *v, int indent)
{
    if (v)
        put_json(o, v, indent, 0);
    else
        chat_text(o, "null");
}

void chat_plain(struct chat_out *o, const json_t *v)
{
    if (!v)
        return;
    switch (json_typeof(v)) {
    case JSON_NULL: chat_text(o, "None"); break;
    case JSON_TRUE: chat_text(o, "True"); break;
    case JSON_FALSE: chat_text(o, "False"); break;
    case JSON_STRING: chat_textn(o, json_string_value(v), json_string_length(v)); break;
    case JSON_INTEGER:
    case JSON_REAL: put_number(o, v); break;
    case JSON_ARRAY:
    case JSON_OBJECT: chat_json(o, v, 0); break;
    }
}

bool chat_truth(const json_t *v)
{
    if (!v)
        return false;
    switch (json_typeof(v)) {
    case JSON_NULL:
    case JSON_FALSE: return false;
    case JSON_TRUE: return true;
    case JSON_STRING: return json_string_length(v) > 0;
    case JSON_INTEGER: return json_integer_value(v) != 0;
    case JSON_REAL: return json_real_value(v) != 0.0;
    case JSON_ARRAY: return json_array_size(v) > 0;
    case JSON_OBJECT: return json_object_size(v) > 0;
    }
    return false;
}

const char *chat_str(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

struct sort_key {
    const char *key;
    size_t at;
};

static int compare_keys(const void *a, const void *b)
{
    const struct sort_key *x = a, *y = b;
    int c = strcasecmp(x->key, y->key);

    return c ? c : (x->at > y->at) - (x->at < y->at);
}

const char **chat_sorted_keys(struct chat_out *o, const json_t *object, size_t *n)
{
    size_t count = json_object_size(object), i = 0;
    struct sort_key *k = calloc(count + 1, sizeof *k);
    const char **out = calloc(count + 1, sizeof *out);
    const char *key;
    json_t *v;

    *n = 0;
    if (!k || !out) {
        if (!o->rc)
            o->rc = err_set(o->e, -ENOMEM, "chat: %zu keys", count);
        free(k);
        free(out);
        return NULL;
    }
    json_object_foreach((json_t *)object, key, v)
    {
        k[i] = (struct sort_key){key, i};
        i++;
    }
    qsort(k, count, sizeof *k, compare_keys);
    for (i = 0; i < count; i++)
        out[i] = k[i].key;
    free(k);
    *n = count;
    return out;
}
