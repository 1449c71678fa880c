/* zinc model: the models that are here, and those that the catalogue knows. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/json.h"
#include "base/nearest.h"
#include "cli/cli.h"
#include "engine/look.h"
#include "pull/catalogue.h"
#include "pull/chosen.h"
#include "pull/name.h"
#include "pull/pull.h"
#include "pull/store.h"

static struct {
    bool json, none;
} args;

static const struct opt opts[] = {
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "list and search: one JSON array"),
    OPT("none", 0, OPT_FLAG, &args.none, NULL, "use: no default from now on"),
    { 0 },
};

/* Prints an array; takes it. */
static int print_json(json_t *all)
{
    char *text = json_write(all, JSON_INDENT(2));
    json_decref(all);
    if (!text)
        return usage_error("out of memory");
    puts(text);
    free(text);
    return EXIT_OK;
}

/* ---- list ---- */

static json_t *listed(const struct store_model *m, bool is_default)
{
    return json_pack("{s:s, s:s, s:I, s:i, s:b, s:b}", "name", m->name, "path", m->path, "bytes", (json_int_t)m->bytes, "files", (int)m->n_parts,
                     "whole", m->n_here == m->n_parts, "default", is_default);
}

/* A default that lies elsewhere, or is not here any more. */
static json_t *listed_elsewhere(const char *name)
{
    struct stat st;
    bool here = *name == '/' && stat(name, &st) == 0;
    return json_pack("{s:s, s:s?, s:I, s:i, s:b, s:b}", "name", name, "path", *name == '/' ? name : NULL, "bytes",
                     here ? (json_int_t)st.st_size : 0, "files", 1, "whole", here, "default", true);
}

static void print_listed(const char *size, const char *name, bool is_default)
{
    printf("%10s  %s%s\n", size, name, is_default ? "  (default)" : "");
}

static int list(const char *what)
{
    struct err e = { 0 };
    struct store_model *m = NULL;
    size_t n = 0;
    char *home = NULL, *chosen = NULL, size[32];
    int status = EXIT_OK;
    bool seen = false;
    if (what)
        return usage_error("unexpected argument '%s' (zinc model list)", what);
    if (pull_home(&home, &e) || chosen_get(home, &chosen, &e) || store_list(home, &m, &n, &e)) {
        free(chosen);
        free(home);
        return cli_fail(&e);
    }
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) {
        bool is_default = chosen && strcmp(chosen, m[i].name) == 0;
        seen |= is_default;
        if (args.json)
            json_array_append_new(all, listed(&m[i], is_default));
        else
            print_listed(m[i].n_here == m[i].n_parts ? cli_bytes(m[i].bytes, size) : "begun", m[i].name, is_default);
    }
    if (chosen && !seen) {
        struct stat st;
        if (args.json)
            json_array_append_new(all, listed_elsewhere(chosen));
        else
            print_listed(*chosen == '/' && stat(chosen, &st) == 0 ? cli_bytes((uint64_t)st.st_size, size) : "gone", chosen, true);
    }
    if (args.json)
        status = print_json(json_incref(all));
    else if (!n && !chosen)
        fprintf(stderr, "no models in %s: zinc pull brings some, zinc model search lists a few\n", home);
    json_decref(all);
    store_free(m, n);
    free(chosen);
    free(home);
    return status;
}

/* ---- search ---- */

static bool has_text(const struct catalogue_entry *c, const char *text)
{
    return !text || strcasestr(c->id, text) || strcasestr(c->name, text) || strcasestr(c->family, text) || strcasestr(c->about, text);
}

/* 0 is null, as in the catalogue. */
static json_t *number(uint64_t v)
{
    return v ? json_integer((json_int_t)v) : json_null();
}

static json_t *found(const struct catalogue_entry *c)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "id", c->id, "name", c->name, "family", c->family, "about", c->about, "size",
                     number(c->size), "sha256", c->sha256[0] ? json_string(c->sha256) : json_null(), "context", number(c->context),
                     "kv_bytes", number(c->kv_bytes));
}

static void print_found(const struct catalogue_entry *c)
{
    char size[32], kv[48] = "", bytes[32];
    if (c->kv_bytes)
        snprintf(kv, sizeof kv, ", %s for 8192 of them", cli_bytes(c->kv_bytes * 8192, bytes));
    printf("%-22s %s\n%23s%s%s; context %u tokens%s\n%23s%s\n", c->id, c->about, "", c->size ? cli_bytes(c->size, size) : "size as the hub says",
           c->sha256[0] ? "" : ", no sum here: the hub's is taken", c->context, kv, "", c->name);
}

static int search(const char *text)
{
    struct err e = { 0 };
    struct catalogue_entry *c;
    size_t n, n_found = 0;
    int status = EXIT_OK;
    if (catalogue_open(&c, &n, &e))
        return cli_fail(&e);
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) {
        if (!has_text(&c[i], text))
            continue;
        n_found++;
        if (args.json)
            json_array_append_new(all, found(&c[i]));
        else
            print_found(&c[i]);
    }
    if (args.json)
        status = print_json(json_incref(all));
    else if (!n_found)
        fprintf(stderr, "nothing in the catalogue has '%s'; any file of the hub can be named: hf:OWNER/REPO:FILE.gguf\n", text);
    json_decref(all);
    free(c);
    return args.json || n_found ? status : EXIT_FAILED;
}

/* ---- one model ---- */

static int path_of(const char *name)
{
    struct err e = { 0 };
    char *path;
    if (pull_find(name, &path, &e))
        return cli_fail(&e);
    puts(path);
    free(path);
    return EXIT_OK;
}

/* What is here whole is named as always; what was begun by the name that zinc model list prints. */
static int remove_model(const char *name)
{
    struct err e = { 0 };
    struct store_model *m = NULL;
    size_t n = 0, i = 0;
    char *home = NULL, *path = NULL;
    int rc = pull_home(&home, &e);
    if (!rc && !(rc = store_list(home, &m, &n, &e))) {
        while (i < n && strcmp(m[i].name, name) != 0)
            i++;
        if (i < n)
            rc = store_remove(home, m[i].path, &e);
        else if (!(rc = pull_find(name, &path, &e)))
            rc = store_remove(home, path, &e);
    }
    store_free(m, n);
    free(path);
    free(home);
    return rc ? cli_fail(&e) : EXIT_OK;
}

/* The name of the file at `path`, to be freed: as zinc model list has it, or its path where it lies elsewhere. */
static int name_of_file(const char *home, const char *path, char **name, struct err *e)
{
    char *real = realpath(path, NULL), *top = realpath(home, NULL), place_name[NAME_URL_BYTES];
    size_t n = top ? strlen(top) : 0;
    bool inside = real && top && strncmp(real, top, n) == 0 && real[n] == '/';
    *name = !real ? NULL : inside && name_of_place(real + n + 1, place_name, sizeof place_name) ? strdup(place_name) : strdup(real);
    int rc = *name ? 0 : err_set(e, -errno, "%.300s: %s", path, strerror(errno));
    free(real);
    free(top);
    return rc;
}

/* Makes a model that is here the default: one that zinc can open, for a default that fails is told when it is needed. */
static int choose(const char *home, const char *name, struct err *e)
{
    char *path = NULL, *kept = NULL, *text = NULL;
    size_t n = 0;
    bool like_path = strchr(name, '/') || (strlen(name) > 5 && strcmp(name + strlen(name) - 5, ".gguf") == 0);
    int rc = access(name, F_OK) == 0 || (like_path && !name_has_scheme(name)) ? (path = strdup(name)) ? 0 : err_set(e, -ENOMEM, "out of memory")
                                                                              : pull_find(name, &path, e);
    FILE *f = rc ? NULL : open_memstream(&text, &n);
    if (!rc)
        rc = f ? engine_inspect(path, false, true, f, e) : err_set(e, -ENOMEM, "out of memory");
    if (f)
        fclose(f);
    if (!rc && !(rc = name_of_file(home, path, &kept, e)) && !(rc = chosen_set(home, kept, e)))
        printf("%s\n", kept);
    free(text);
    free(kept);
    free(path);
    return rc;
}

static int use(const char *name)
{
    struct err e = { 0 };
    char *home, *chosen = NULL;
    if (args.none && name)
        return usage_error("zinc model use --none clears the default: expected without a name beside it ('%s')", name);
    if (pull_home(&home, &e))
        return cli_fail(&e);
    int rc = args.none ? chosen_set(home, NULL, &e) : name ? choose(home, name, &e) : chosen_get(home, &chosen, &e);
    if (!rc && chosen)
        printf("%s\n", chosen);
    else if (!rc && !name && !args.none)
        rc = err_set(&e, -ENOENT, "no default was chosen: zinc model use NAME chooses one; until then the largest here that fits is taken");
    free(chosen);
    free(home);
    return rc ? cli_fail(&e) : EXIT_OK;
}

static int pull_one(const char *name)
{
    char *argv[] = { "pull", (char *)name, NULL };
    return cmd_pull.main(2, argv);
}

/* ---- the command ---- */

static const char actions[] = "list|search|pull|use|rm|path";

static int model_main(int argc, char **argv)
{
    static const struct {
        const char *name;
        bool needs_name;
        int (*fn)(const char *name);
    } action[] = { { "list", false, list }, { "search", false, search }, { "pull", true, pull_one },
                 { "use", false, use }, { "rm", true, remove_model }, { "path", true, path_of } };
    char near[64];
    if (args.none && (argc < 2 || strcmp(argv[1], "use") != 0))
        return usage_error("--none is for zinc model use");
    if (argc < 2)
        return usage_error("no action given: zinc model %s (zinc model --help)", actions);
    for (size_t i = 0; i < ARRAY_LEN(action); i++) {
        if (strcmp(argv[1], action[i].name) != 0)
            continue;
        if (action[i].needs_name && argc < 3)
            return usage_error("no name given: zinc model %s NAME", action[i].name);
        return action[i].fn(argv[2]);
    }
    if (nearest_word(argv[1], actions, near))
        return usage_error("unknown action '%s': did you mean '%s'? (zinc model --help)", argv[1], near);
    return usage_error("unknown action '%s': %s is expected", argv[1], actions);
}

static const struct opt_group groups[] = { { "options", opts }, { 0 } };
static const char *const operands[] = { actions, "NAME", NULL };

const struct command cmd_model = {
    .name = "model",
    .summary = "models by name: list, search, pull, use, remove",
    .usage = "list|search [TEXT]|pull NAME|use NAME|use --none|rm NAME|path NAME [--json]",
    .about =
        "list prints the models that were pulled, search those of the catalogue, which is part of the program, pull brings\n"
        "one here (zinc pull has options for it), use makes one that is here the default of commands that name none (alone it\n"
        "prints it, --none clears it), rm removes one, path prints where one lies. Wherever a command takes a model's file\n"
        "it takes a name as well, and pulls it where it is not here. Without a default the largest model here that fits\n"
        "this machine's memory is taken, which is told.\n"
        "\n"
        "  zinc model search qwen\n"
        "  zinc model pull qwen3-0.6b\n"
        "  zinc chat -m qwen3-0.6b\n"
        "  zinc model use qwen3-0.6b\n"
        "  zinc chat\n"
        "  zinc model path hf:Qwen/Qwen3-4B-GGUF:Q4_K_M\n"
        "  zinc model rm qwen3-0.6b",
    .groups = groups,
    .operands = operands,
    .main = model_main,
};
