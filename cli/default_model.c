/* The model that is meant where a command names none: the one of zinc model use, else the largest here that fits this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "cli/cli.h"
#include "engine/look.h"
#include "pull/catalogue.h"
#include "pull/chosen.h"
#include "pull/pull.h"

static int gone(const char *name, const char *why)
{
    struct err e = { 0 };
    err_set(&e, -ENOENT, "the default model %.300s %s: zinc model use NAME chooses another, zinc model use --none none", name, why);
    return cli_fail(&e);
}

static int chosen_path(const char *name, const char **path)
{
    static char *kept; /* for as long as the program runs */
    struct err e = { 0 };
    int rc = *name == '/' ? (kept = strdup(name)) ? 0 : -ENOMEM : pull_find(name, &kept, &e);
    if (rc && rc != -ENOENT)
        return cli_fail(&e);
    if (rc || access(kept, F_OK) != 0)
        return gone(name, "is gone");
    *path = kept;
    return 0;
}

/* Whether zinc generates text with the file. */
static bool generates(const char *path)
{
    char *text = NULL;
    size_t n = 0;
    struct err e = { 0 };
    FILE *f = open_memstream(&text, &n);
    int rc = f ? engine_inspect(path, false, true, f, &e) : -ENOMEM;
    if (f && fclose(f))
        rc = -ENOMEM;
    json_t *v = rc ? NULL : json_read(text, n, 0, NULL, NULL);
    bool yes = json_is_true(json_object_get(v, "runs")) && !json_object_get(v, "pooling");
    json_decref(v);
    free(text);
    return yes;
}

/* The largest entry of the catalogue whose size is known and fits: what could be pulled. */
static int nothing_here(uint64_t memory)
{
    struct err e = { 0 };
    struct catalogue_entry *c;
    size_t n, best;
    char size[32], hint[160] = "zinc pull NAME brings one";
    if (!catalogue_open(&c, &n, &e)) {
        best = n;
        for (size_t i = 0; i < n; i++)
            if (c[i].size && c[i].size <= memory && (best == n || c[i].size > c[best].size))
                best = i;
        if (best < n)
            snprintf(hint, sizeof hint, "zinc pull %s brings one of %s, which fits this machine's memory", c[best].id, cli_bytes(c[best].size, size));
        free(c);
    }
    return usage_error("no model given: -m FILE; and none is here that could be the default: %s", hint);
}

static int fitting_path(const char *home, const char **path, bool told)
{
    static char *kept;
    struct err e = { 0 };
    struct store_model *m = NULL;
    size_t n = 0, best;
    char size[32];
    uint64_t memory = pull_memory();
    if (store_list(home, &m, &n, &e))
        return cli_fail(&e);
    bool *taken = calloc(n + 1, sizeof *taken);
    for (best = taken ? chosen_by_size(m, n, memory, taken) : n; best < n && !generates(m[best].path);
         best = chosen_by_size(m, n, memory, taken))
        taken[best] = true;
    int rc = best < n && (kept = strdup(m[best].path)) ? 0 : nothing_here(memory);
    if (!rc && told)
        cli_say("no model was named: %s (%s) is taken, %s (zinc model use NAME chooses)", m[best].name, cli_bytes(m[best].bytes, size),
                n == 1 ? "the only one here" : "the largest here that fits this machine's memory");
    *path = kept;
    store_free(m, n);
    free(taken);
    return rc;
}

int cli_default_model(const char **path, bool told)
{
    struct err e = { 0 };
    char *home, *name;
    if (pull_home(&home, &e))
        return usage_error("no model given: -m FILE");
    int rc = chosen_get(home, &name, &e) ? cli_fail(&e) : 0;
    if (!rc)
        rc = name ? chosen_path(name, path) : fitting_path(home, path, told);
    free(name);
    free(home);
    return rc;
}
