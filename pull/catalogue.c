#include "pull/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/json.h"
#include "base/nearest.h"

EMBED_FILE(zinc_catalogue, ZINC_CATALOGUE);

extern const char zinc_catalogue_begin[], zinc_catalogue_end[];

/* A text of 1 to max - 1 printable bytes. */
static bool text_of(const json_t *o, const char *key, char *out, size_t max)
{
    const char *s = json_string_value(json_object_get(o, key));
    size_t n = s ? strlen(s) : 0;
    if (!n || n >= max)
        return false;
    for (size_t i = 0; i < n; i++)
        if (s[i] < 0x20 || s[i] == 0x7f)
            return false;
    memcpy(out, s, n + 1);
    return true;
}

/* A whole number above 0, or null: 0. */
static bool number_of(const json_t *o, const char *key, json_int_t max, uint64_t *out)
{
    const json_t *v = json_object_get(o, key);
    json_int_t i = json_integer_value(v);
    *out = (uint64_t)i;
    return json_is_null(v) || (json_is_integer(v) && i > 0 && i <= max);
}

/* NULL, or what is wrong with it. */
static const char *read_entry(const json_t *o, struct catalogue_entry *c)
{
    const json_t *sum = json_object_get(o, "sha256");
    struct model_name m;
    uint64_t context;
    *c = (struct catalogue_entry){ 0 };
    if (!json_is_object(o))
        return "an object is expected";
    if (!text_of(o, "id", c->id, sizeof c->id) || name_parse(c->id, &m, NULL) || m.kind != NAME_CATALOGUE)
        return "id: a word is expected";
    if (!text_of(o, "name", c->name, sizeof c->name) || name_parse(c->name, &m, NULL) || (m.kind != NAME_REPO_FILE && m.kind != NAME_REPO_TAG))
        return "name: hf:OWNER/REPO:FILE.gguf is expected";
    if (!text_of(o, "family", c->family, sizeof c->family) || !text_of(o, "about", c->about, sizeof c->about))
        return "family and about: texts are expected";
    if (!number_of(o, "size", INT64_MAX, &c->size) || !number_of(o, "kv_bytes", 1 << 30, &c->kv_bytes) ||
        !number_of(o, "context", 1 << 30, &context))
        return "size, context and kv_bytes: numbers above 0 or null are expected";
    if (!json_is_null(sum) && (!json_is_string(sum) || !sha256_from_text(json_string_value(sum), c->sha256)))
        return "sha256: 64 hex digits or null are expected";
    c->context = (uint32_t)context;
    return NULL;
}

int catalogue_read(const char *text, size_t n, struct catalogue_entry **out, size_t *n_out, struct err *e)
{
    json_error_t je;
    bool no_memory;
    const char *wrong = NULL;
    json_t *all = json_read(text, n, 0, &je, &no_memory), *list = json_object_get(all, "models");
    size_t n_all = json_array_size(list), i;
    *out = NULL;
    *n_out = 0;
    int rc = no_memory ? err_set(e, -ENOMEM, "out of memory")
             : !all ? err_set(e, -EINVAL, "catalogue: line %d: %.150s", je.line, je.text)
             : !json_is_array(list) || n_all > CATALOGUE_MAX ? err_set(e, -EINVAL, "catalogue: an array 'models' of at most %d is expected", CATALOGUE_MAX)
                                                             : 0;
    struct catalogue_entry *c = rc ? NULL : calloc(n_all + 1, sizeof *c);
    if (!rc && !c)
        rc = err_set(e, -ENOMEM, "out of memory");
    for (i = 0; !rc && i < n_all; i++) {
        wrong = read_entry(json_array_get(list, i), &c[i]);
        if (!wrong && catalogue_find(c, i, c[i].id))
            wrong = "its id is another's as well";
        if (wrong)
            rc = err_set(e, -EINVAL, "catalogue: entry %zu: %s", i, wrong);
    }
    json_decref(all);
    if (rc) {
        free(c);
        return rc;
    }
    *out = c;
    *n_out = n_all;
    return 0;
}

int catalogue_open(struct catalogue_entry **out, size_t *n_out, struct err *e)
{
    return catalogue_read(zinc_catalogue_begin, (size_t)(zinc_catalogue_end - zinc_catalogue_begin), out, n_out, e);
}

const struct catalogue_entry *catalogue_find(const struct catalogue_entry *c, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(c[i].id, id) == 0)
            return &c[i];
    return NULL;
}

struct ids {
    const struct catalogue_entry *c;
    size_t n;
};

static const char *id_at(const void *user, size_t i)
{
    const struct ids *ids = user;
    return i < ids->n ? ids->c[i].id : NULL;
}

const char *catalogue_nearest(const struct catalogue_entry *c, size_t n, const char *id)
{
    struct ids ids = { c, n };
    return nearest_name(id, id_at, &ids);
}
