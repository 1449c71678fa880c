/* Which models zinc serve --models serves, and with which options. */
#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/json.h"
#include "base/nearest.h"
#include "base/toml.h"
#include "cli/cli.h"
#include "cli/serve.h"
#include "engine/look.h"
#include "pull/name.h"
#include "pull/pull.h"
#include "pull/store.h"

/* All that is allocated, freed together. */
struct piece {
    SLIST_ENTRY(piece) next;
    char bytes[];
};
SLIST_HEAD(pieces, piece);

struct lister {
    struct serve_models *out;
    struct pieces *all;
    const struct opt *const *tables;
    uint32_t unload_after_s;
    const char **given; /* options of the command line, [n_given] */
    uint32_t n_given;
    int rc;             /* an exit status after a message; then nothing more is done */
};

static void *keep(struct lister *l, size_t n)
{
    struct piece *p = l->rc ? NULL : calloc(1, sizeof *p + n);
    if (p)
        SLIST_INSERT_HEAD(l->all, p, next);
    else if (!l->rc)
        l->rc = usage_error("out of memory");
    return p ? p->bytes : NULL;
}

__attribute__((format(printf, 2, 3))) static const char *keep_text(struct lister *l, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *s = keep(l, (size_t)n + 1);
    va_start(ap, fmt);
    if (s)
        vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s ? s : "";
}

/* ---- options ---- */

/* These are the router's, or make no sense for one of several. */
static bool is_for_a_model(const char *name)
{
    static const char *const not[] = { "model", "name", "alias", "strict-model", "max-connections", "threads-http" };
    for (size_t i = 0; i < ARRAY_LEN(not); i++)
        if (strcmp(name, not[i]) == 0)
            return false;
    return true;
}

static const struct opt *find(const struct lister *l, const char *name, size_t n)
{
    for (size_t t = 0; l->tables[t]; t++)
        for (const struct opt *o = l->tables[t]; o->name; o++)
            if (strlen(o->name) == n && memcmp(o->name, name, n) == 0 && is_for_a_model(o->name))
                return o;
    return NULL;
}

static const char *option_at(const void *user, size_t i)
{
    static const char *const own[] = { "model", "alias", "pin", "unload-after" };
    const struct lister *l = user;
    if (i < ARRAY_LEN(own))
        return own[i];
    i -= ARRAY_LEN(own);
    for (size_t t = 0; l->tables[t]; t++)
        for (const struct opt *o = l->tables[t]; o->name; o++)
            if (is_for_a_model(o->name) && i-- == 0)
                return o->name;
    return NULL;
}

static const char *spelled(struct lister *l, const struct opt *o, const char *value, bool negated)
{
    return value ? keep_text(l, "--%s=%s", o->name, value) : keep_text(l, "--%s%s", negated ? "no-" : "", o->name);
}

static void take_given(struct lister *l)
{
    uint32_t n;
    const struct arg_given *g = args_given(&n);
    l->given = keep(l, n * sizeof *l->given + 1);
    for (uint32_t i = 0; !l->rc && i < n; i++)
        if (find(l, g[i].o->name, strlen(g[i].o->name)))
            l->given[l->n_given++] = spelled(l, g[i].o, g[i].value, g[i].negated);
}

/* ---- models ---- */

/* What the file at `path` says of itself; NULL after a message in *e. */
static json_t *look(const char *path, struct err *e)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    int rc = f ? engine_inspect(path, false, true, f, e) : err_set(e, -ENOMEM, "out of memory");
    if (f && fclose(f) && !rc)
        rc = err_set(e, -ENOMEM, "out of memory");
    json_t *v = rc ? NULL : json_read(text, n, 0, NULL, NULL);
    if (!rc && !v)
        err_set(e, -EIO, "%s: its description cannot be read", path);
    if (v && !json_is_true(json_object_get(v, "runs"))) {
        const char *why = json_string_value(json_object_get(v, "why_not"));
        err_set(e, -ENOTSUP, "%s: %s", path, why ? why : "zinc does not run it");
        json_decref(v);
        v = NULL;
    }
    free(text);
    return v;
}

/* Takes v. */
static void describe(struct lister *l, struct router_model *m, json_t *v)
{
    char type[NAME_TAG];
    const json_t *shape = json_object_get(v, "model");
    const char *family = json_string_value(json_object_get(v, "architecture"));
    m->family = family ? keep_text(l, "%s", family) : NULL;
    m->weights = name_type(m->path, type) ? keep_text(l, "%s", type) : NULL;
    m->bytes = (uint64_t)json_integer_value(json_object_get(v, "bytes"));
    m->n_params = (uint64_t)json_integer_value(json_object_get(v, "parameters"));
    m->n_ctx_train = (uint32_t)json_integer_value(json_object_get(shape, "context"));
    m->chats = json_is_true(json_object_get(v, "chat_template"));
    m->pools = json_object_get(v, "pooling") != NULL;
    json_decref(v);
}

/* The name of a file without its folder, .gguf and -00001-of-00002. */
static const char *stem(struct lister *l, const char *path)
{
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    size_t n = strlen(base);
    unsigned no, count;
    if (n > 5 && strcmp(base + n - 5, ".gguf") == 0)
        n -= 5;
    if (name_split(base, &no, &count) && n > 15)
        n -= 15;
    return keep_text(l, "%.*s", (int)n, base);
}

static struct router_model *add(struct lister *l, const char *name, const char *path)
{
    struct serve_models *all = l->out;
    for (uint32_t i = 0; !l->rc && i < all->n; i++)
        if (strcmp(all->m[i].name, name) == 0)
            l->rc = usage_error("two models are called '%s': %s and %s", name, all->m[i].path, path);
    if (!l->rc && all->n == SERVE_MOST_MODELS)
        l->rc = usage_error("more than %d models (--models)", SERVE_MOST_MODELS);
    if (l->rc)
        return NULL;
    struct router_model *m = &all->m[all->n++];
    *m = (struct router_model){ .name = name, .path = path, .idle_s = l->unload_after_s };
    return m;
}

/* zinc serve PATH, the command line's options, then its own. */
static void spell(struct lister *l, struct router_model *m, const char *const *own, uint32_t n_own)
{
    const char **argv = keep(l, (l->n_given + n_own + 5) * sizeof *argv);
    uint32_t n = 0;
    if (!argv)
        return;
    argv[n++] = "zinc";
    argv[n++] = "serve";
    for (uint32_t i = 0; i < l->n_given; i++)
        argv[n++] = l->given[i];
    for (uint32_t i = 0; i < n_own; i++)
        argv[n++] = own[i];
    argv[n++] = keep_text(l, "--name=%s", m->name);
    argv[n++] = keep_text(l, "--model=%s", m->path);
    m->argv = argv;
}

/* ---- a folder ---- */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_model(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    unsigned no, count;
    return n > 5 && strcmp(d->d_name + n - 5, ".gguf") == 0 && strncmp(d->d_name, "mmproj", 6) != 0 &&
           (!name_split(d->d_name, &no, &count) || no == 1);
}

/* False: it is no model, which is said, and the others are served. */
static bool add_file(struct lister *l, const char *name, const char *path)
{
    struct err e = { 0 };
    json_t *v = look(path, &e);
    if (!v) {
        fprintf(stderr, "zinc: warning: left out: %s\n", e.msg);
        return false;
    }
    struct router_model *m = add(l, name, path);
    if (!m) {
        json_decref(v);
        return false;
    }
    describe(l, m, v);
    spell(l, m, NULL, 0);
    return true;
}

static void list_folder(struct lister *l, const char *dir)
{
    struct dirent **d;
    int n = scandir(dir, &d, is_model, by_name);
    if (n < 0) {
        l->rc = usage_error("--models %s: %s", dir, strerror(errno));
        return;
    }
    for (int i = 0; i < n; i++) {
        const char *path = keep_text(l, "%s/%s", dir, d[i]->d_name);
        if (!l->rc)
            add_file(l, stem(l, path), path);
        free(d[i]);
    }
    free(d);
    if (!l->rc && !l->out->n)
        l->rc = usage_error("--models %s: no model is in this folder: a file that ends with .gguf is expected", dir);
}

static void list_pulled(struct lister *l)
{
    struct err e = { 0 };
    struct store_model *m = NULL;
    size_t n = 0;
    char *home = NULL;
    if (pull_home(&home, &e) || store_list(home, &m, &n, &e))
        l->rc = cli_fail(&e);
    for (size_t i = 0; !l->rc && i < n; i++)
        if (m[i].n_here == m[i].n_parts) {
            const char *path = keep_text(l, "%s", m[i].path), **alias = keep(l, sizeof *alias);
            if (alias && add_file(l, keep_text(l, "%s", m[i].name), path)) {
                alias[0] = stem(l, path); /* the short name too */
                l->out->m[l->out->n - 1].aliases = alias;
                l->out->m[l->out->n - 1].n_aliases = 1;
            }
        }
    if (!l->rc && !l->out->n)
        l->rc = usage_error("--models pulled: no model has been pulled (zinc pull NAME brings one, zinc model search lists names)");
    store_free(m, n);
    free(home);
}

/* ---- a list ---- */

struct section {
    const char **own; /* options, [n] */
    uint32_t n;
    const char *model, **aliases;
    uint32_t n_aliases;
    bool pinned;
    int64_t unload_after_s; /* -1: not said */
};

static int wrong(struct lister *l, const char *file, const struct toml_pair *p, const char *expected)
{
    return l->rc = usage_error("%s:%u: %s: %s is expected", file, p->line, p->key, expected);
}

static void take_option(struct lister *l, const char *file, const struct toml_pair *p, struct section *s)
{
    const struct opt *o = find(l, p->key, strlen(p->key));
    char shown[300];
    if (!o) {
        const char *near = nearest_name(p->key, option_at, l);
        l->rc = usage_error("%s:%u: there is no option '%.60s' for a model%s%s%s (zinc serve --help lists them)", file, p->line, p->key,
                            near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
        return;
    }
    if (o->kind == OPT_FLAG || o->kind == OPT_TRI) {
        if (p->kind != TOML_BOOL || p->n_values != 1)
            wrong(l, file, p, "true or false");
        else if (o->kind == OPT_TRI || strcmp(p->value[0], "true") == 0)
            s->own[s->n++] = spelled(l, o, NULL, strcmp(p->value[0], "false") == 0);
        return;
    }
    if (p->n_values != 1 && (o->kind != OPT_LIST || !p->n_values)) {
        wrong(l, file, p, "one value");
        return;
    }
    snprintf(shown, sizeof shown, "%.200s:%u: %.60s", file, p->line, p->key);
    for (uint32_t i = 0; !l->rc && i < p->n_values; i++) {
        int rc = args_set_option(o, shown, p->value[i]); /* whether it can be; the process sets it for itself */
        l->rc = rc == ARGS_RUN ? 0 : rc;
        s->own[s->n++] = spelled(l, o, p->value[i], false);
    }
}

static void take_pair(struct lister *l, const char *file, const struct toml_pair *p, bool common, struct section *s)
{
    if (strcmp(p->key, "model") == 0 || strcmp(p->key, "alias") == 0) {
        bool one = strcmp(p->key, "model") == 0;
        if (common)
            l->rc = usage_error("%s:%u: %s: expected in a model's own table, as below [NAME]", file, p->line, p->key);
        else if (p->kind != TOML_STRING || !p->n_values || (one && p->is_array))
            wrong(l, file, p, one ? "a path or a name in quotes" : "a name in quotes, or several in [ ]");
        else if (one)
            s->model = p->value[0];
        else if ((s->aliases = keep(l, p->n_values * sizeof *s->aliases)))
            for (; s->n_aliases < p->n_values; s->n_aliases++)
                s->aliases[s->n_aliases] = keep_text(l, "%s", p->value[s->n_aliases]);
    } else if (strcmp(p->key, "pin") == 0) {
        if (p->kind != TOML_BOOL || p->n_values != 1)
            wrong(l, file, p, "true or false");
        else
            s->pinned = strcmp(p->value[0], "true") == 0;
    } else if (strcmp(p->key, "unload-after") == 0) {
        char *end = NULL;
        s->unload_after_s = p->n_values == 1 && p->kind == TOML_NUMBER ? strtoll(p->value[0], &end, 10) : -1;
        if (!end || *end || s->unload_after_s < 0 || s->unload_after_s > UINT32_MAX)
            wrong(l, file, p, "a number of seconds");
    } else {
        take_option(l, file, p, s);
    }
}

/* A path is relative to the list's folder. */
static const char *place_of(struct lister *l, const char *file, const char *model)
{
    const char *slash = strrchr(file, '/');
    size_t n = strlen(model);
    bool path = !name_has_scheme(model) && (strchr(model, '/') || (n > 5 && strcmp(model + n - 5, ".gguf") == 0));
    if (!path || model[0] == '/' || !slash)
        return keep_text(l, "%s", model);
    return keep_text(l, "%.*s/%s", (int)(slash - file), file, model);
}

static void add_section(struct lister *l, const char *file, const struct toml *t, uint32_t table, const struct section *common)
{
    struct section s = { .pinned = common->pinned, .unload_after_s = common->unload_after_s };
    uint32_t n = common->n;
    for (uint32_t i = 0; i < t->n; i++)
        n += t->pair[i].table == table ? t->pair[i].n_values + 1 : 0;
    s.own = keep(l, n * sizeof *s.own + 1);
    for (uint32_t i = 0; !l->rc && i < common->n; i++)
        s.own[s.n++] = common->own[i];
    for (uint32_t i = 0; !l->rc && i < t->n; i++)
        if (t->pair[i].table == table)
            take_pair(l, file, &t->pair[i], false, &s);
    if (!l->rc && !s.model)
        l->rc = usage_error("%s:%u: [%s] has no model = \"FILE.gguf\"", file, t->table_line[table], t->table[table]);
    if (l->rc)
        return;
    const char *path = place_of(l, file, s.model);
    struct router_model *m = add(l, keep_text(l, "%s", t->table[table]), path);
    struct err e = { 0 };
    json_t *v;
    if (!m)
        return;
    m->aliases = s.aliases;
    m->n_aliases = s.n_aliases;
    m->pinned = s.pinned;
    if (s.unload_after_s >= 0)
        m->idle_s = (uint32_t)s.unload_after_s;
    spell(l, m, s.own, s.n);
    struct stat st;
    if (stat(path, &st)) {
        if (strchr(path, '/') && !name_has_scheme(path))
            l->rc = usage_error("%s:%u: %s: %s", file, t->table_line[table], path, strerror(errno));
    } else if (!(v = look(path, &e))) {
        l->rc = cli_fail(&e);
    } else {
        describe(l, m, v);
    }
}

static void list_file(struct lister *l, const char *file)
{
    struct err e = { 0 };
    struct toml t = { 0 };
    char *text = NULL;
    size_t n = 0;
    struct section common = { .unload_after_s = -1 };
    if (cli_read_file(file, &text, &n, &e) || toml_parse(text, n, file, &t, &e))
        l->rc = cli_fail(&e);
    uint32_t values = 0;
    for (uint32_t i = 0; i < t.n; i++)
        values += t.pair[i].n_values + 1;
    common.own = keep(l, values * sizeof *common.own + 1);
    for (uint32_t i = 0; !l->rc && i < t.n; i++)
        if (t.pair[i].table == 0)
            take_pair(l, file, &t.pair[i], true, &common);
    for (uint32_t k = 1; !l->rc && k < t.n_tables; k++)
        add_section(l, file, &t, k, &common);
    if (!l->rc && !l->out->n)
        l->rc = usage_error("--models %s: no model is in this list: [NAME] and below it model = \"FILE.gguf\" is expected", file);
    toml_clear(&t);
    free(text);
}

int serve_models_list(const char *what, const struct opt *const *tables, uint32_t unload_after_s, struct serve_models *out)
{
    struct stat st;
    struct lister l = { .out = out, .tables = tables, .unload_after_s = unload_after_s, .all = calloc(1, sizeof *l.all) };
    *out = (struct serve_models){ .owned = l.all, .m = calloc(SERVE_MOST_MODELS, sizeof *out->m) };
    if (!l.all || !out->m)
        return usage_error("out of memory");
    SLIST_INIT(l.all);
    take_given(&l);
    if (l.rc)
        ;
    else if (strcmp(what, "pulled") == 0)
        list_pulled(&l);
    else if (stat(what, &st))
        l.rc = usage_error("--models %s: %s: a folder, a list in TOML, or the word pulled is expected", what, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        list_folder(&l, what);
    else
        list_file(&l, what);
    return l.rc;
}

void serve_models_free(struct serve_models *m)
{
    struct pieces *all = m->owned;
    struct piece *p;
    while (all && (p = SLIST_FIRST(all))) {
        SLIST_REMOVE_HEAD(all, next);
        free(p);
    }
    free(all);
    free(m->m);
    *m = (struct serve_models){ 0 };
}
