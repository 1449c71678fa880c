#include "pull/pull.h"

#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/env.h"
#include "pull/catalogue.h"
#include "pull/fetch.h"
#include "pull/http.h"
#include "pull/hub.h"
#include "pull/hub_access.h"
#include "pull/name.h"
#include "pull/sha256.h"
#include "pull/store.h"

int pull_home(char **path, struct err *e)
{
    const char *own = env_get()->models, *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int n = own ? asprintf(path, "%s", own)
            : xdg && *xdg == '/' ? asprintf(path, "%s/zinc/models", xdg)
            : home && *home ? asprintf(path, "%s/.local/share/zinc/models", home) : 0;
    if (n > 0)
        return 0;
    return n ? err_set(e, -ENOMEM, "out of memory") : err_set(e, -ENOENT, "no folder for models: neither ZINC_MODELS nor HOME is set");
}

static int make_folders(char *path, struct err *e)
{
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            int rc = mkdir(path, 0755) && errno != EEXIST ? err_set(e, -errno, "%.300s: cannot be made: %s", path, strerror(errno)) : 0;
            *p = '/';
            if (rc)
                return rc;
        }
    return 0;
}

/* ---- one file ---- */

static int path_of(const struct model_name *m, char **path, struct err *e)
{
    char place[NAME_PLACE], *home;
    int rc = pull_home(&home, e);
    if (rc)
        return rc;
    name_place(m, place);
    rc = asprintf(path, "%s/%s", home, place) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
    free(home);
    return rc;
}

static int fetch_one(const struct model_name *m, const char *path, const struct pull_opts *o, const char *sha256, uint64_t size,
                     struct pull_result *r, struct err *e)
{
    bool hub = m->kind != NAME_URL;
    char *url = hub ? hub_file_url(m) : strdup(m->url), *token = NULL, *folder = strdup(path);
    int rc = url && folder ? 0 : err_set(e, -ENOMEM, "out of memory");
    if (!rc && !(rc = hub_token(o->token_file, url, hub, &token, e)) && !(rc = make_folders(folder, e))) {
        struct fetch f = { .url = url, .path = path, .size = size, .sha256 = sha256, .token = token, .connections = o->connections,
                           .progress = o->progress, .cancel = o->cancel, .say = o->say };
        struct fetch_result one;
        rc = fetch_file(&f, &one, e);
        r->received += one.received;
        r->ns += one.ns;
        if (!rc && !one.there) {
            r->n_files++;
            r->n_verified += one.verified;
            r->bytes += one.size;
        }
    }
    free(url);
    free(token);
    free(folder);
    return rc;
}

static bool is_offline(const struct pull_opts *o)
{
    return (o && o->offline) || env_get()->offline;
}

/* ---- which file is meant ---- */

/* A name with what is known about its file. */
struct wanted {
    struct model_name m;        /* NAME_REPO_FILE, NAME_URL, or NAME_REPO_TAG while the file is not known */
    struct hub_file *files;     /* what the hub says of the repository; NULL: it was not asked            */
    size_t n_files;
    uint64_t size;              /* of a model in one file; 0: not known  */
    char sha256[SHA256_TEXT];   /* the same; "": not known               */
};

static int read_name(const char *name, struct wanted *w, struct err *e)
{
    struct catalogue_entry *c;
    size_t n;
    *w = (struct wanted){ 0 };
    int rc = name_parse(name, &w->m, e);
    if (rc || w->m.kind != NAME_CATALOGUE)
        return rc;
    if ((rc = catalogue_open(&c, &n, e)))
        return rc;
    const struct catalogue_entry *found = catalogue_find(c, n, name);
    const char *near = found ? NULL : catalogue_nearest(c, n, name);
    if (found) {
        rc = name_parse(found->name, &w->m, e);
        w->size = found->size;
        memcpy(w->sha256, found->sha256, sizeof w->sha256);
    } else {
        rc = err_set(e, -EINVAL, "'%.100s' is neither a file nor in the catalogue%s%s%s (zinc model search)", name, near ? ": did you mean " : "",
                     near ? near : "", near ? "?" : "");
    }
    free(c);
    return rc;
}

/* The models of a repository that are here, as the hub would list them. */
static int files_here(const struct model_name *m, struct hub_file **out, size_t *n_out, struct err *e)
{
    struct store_model *all;
    size_t n;
    char *home, prefix[2 * NAME_PART + 8];
    int rc = pull_home(&home, e);
    if (rc)
        return rc;
    rc = store_list(home, &all, &n, e);
    free(home);
    if (rc)
        return rc;
    struct hub_file *f = calloc(n + 1, sizeof *f);
    size_t n_prefix = (size_t)snprintf(prefix, sizeof prefix, "hf:%s/%s:", m->owner, m->repo);
    *n_out = 0;
    for (size_t i = 0; f && i < n; i++)
        if (strncmp(all[i].name, prefix, n_prefix) == 0 && all[i].n_here == all[i].n_parts) {
            strcpy(f[*n_out].path, all[i].name + n_prefix);
            f[(*n_out)++].size = all[i].bytes;
        }
    store_free(all, n);
    *out = f;
    return f ? 0 : err_set(e, -ENOMEM, "out of memory");
}

/* Of a repository and a type the file that is here. -ENOENT: none, without a message. */
static int choose_here(struct model_name *m, struct err *e)
{
    struct hub_file *f;
    size_t n, which;
    char why[200];
    int rc = files_here(m, &f, &n, e);
    if (rc)
        return rc;
    if (n > 1 && !m->tag[0])
        rc = err_set(e, -EINVAL, "several files of hf:%s/%s are here, %.100s and %.100s among them: name one", m->owner, m->repo, f[0].path,
                     f[1].path);
    else
        rc = n ? hub_choose(f, n, m->tag, 0, &which, why, NULL) : -ENOENT;
    if (!rc) {
        m->kind = NAME_REPO_FILE;
        strcpy(m->file, f[which].path);
    }
    free(f);
    return rc;
}

static int hub_list(const struct model_name *m, const struct pull_opts *o, struct wanted *w, struct err *e)
{
    char *url = hub_tree_url(m), *token = NULL, *text = NULL, line[80];
    size_t n, n_refused;
    if (!url)
        return err_set(e, -ENOMEM, "out of memory");
    int rc = hub_token(o->token_file, url, true, &token, e);
    if (!rc && !(rc = http_text(url, token, HUB_TREE_BYTES, &text, &n, e)) &&
        !(rc = hub_read_tree(text, n, &w->files, &w->n_files, &n_refused, e)) && n_refused && o->say) {
        snprintf(line, sizeof line, "note: %zu names in the hub's list are not safe, and left out", n_refused);
        o->say(line);
    }
    free(url);
    free(token);
    free(text);
    return rc;
}

uint64_t pull_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages > 0 && bytes > 0 ? (uint64_t)pages * (uint64_t)bytes : 0;
}

static int choose_on_hub(struct wanted *w, const struct pull_opts *o, struct err *e)
{
    size_t which;
    char why[200];
    int rc = hub_list(&w->m, o, w, e);
    rc = rc ? rc : hub_choose(w->files, w->n_files, w->m.tag, pull_memory(), &which, why, e);
    if (rc) {
        err_context(e, "hf:%s/%s", w->m.owner, w->m.repo);
        return rc;
    }
    if (why[0] && o->say)
        o->say(why);
    w->m.kind = NAME_REPO_FILE;
    strcpy(w->m.file, w->files[which].path);
    return 0;
}

/* What the hub's list says of a file. */
static const struct hub_file *listed(const struct wanted *w, const char *path)
{
    for (size_t i = 0; i < w->n_files; i++)
        if (strcmp(w->files[i].path, path) == 0)
            return &w->files[i];
    return NULL;
}

/* ---- all of a model's files ---- */

static char *file_of(struct model_name *m)
{
    return m->kind == NAME_URL ? m->url : m->file;
}

/* How many files; an address with a query has its parts, if any, elsewhere. */
static int count_parts(struct model_name *m, bool *split, unsigned *count, struct err *e)
{
    unsigned no = 1;
    const char *file = file_of(m);
    *count = 1;
    *split = !(m->kind == NAME_URL && strpbrk(file, "?#")) && name_split(file, &no, count);
    if (*split && no != 1)
        return err_set(e, -EINVAL, "'%.200s' is part %u of %u: name the first, which brings the others", file, no, *count);
    return *split && *count > 1000 ? err_set(e, -EINVAL, "'%.200s': a model in more than 1000 files", file) : 0;
}

/* Calls fn with the path of each part that is not here, until it fails. *first: the path of the first. */
static int each_missing(struct wanted *w, char **first, int (*fn)(struct wanted *w, const char *path, void *user, struct err *e), void *user,
                        struct err *e)
{
    bool split;
    unsigned count;
    int rc = count_parts(&w->m, &split, &count, e);
    *first = NULL;
    for (unsigned i = 1; i <= count && !rc; i++) {
        char *path = NULL;
        if (split)
            name_set_part(file_of(&w->m), i);
        if (!(rc = path_of(&w->m, &path, e)) && access(path, F_OK) != 0)
            rc = fn(w, path, user, e);
        if (i == 1)
            *first = path;
        else
            free(path);
    }
    if (split)
        name_set_part(file_of(&w->m), 1);
    if (rc) {
        free(*first);
        *first = NULL;
    }
    return rc;
}

static int is_missing(struct wanted *w, const char *path, void *user, struct err *e)
{
    return err_set(e, -ENOENT, "%.300s is not here", path);
}

struct job {
    const struct pull_opts *o;
    struct pull_result *r;
};

static int fetch_missing(struct wanted *w, const char *path, void *user, struct err *e)
{
    const struct job *job = user;
    const struct hub_file *f = w->m.kind == NAME_REPO_FILE ? listed(w, w->m.file) : NULL;
    const char *sum = w->sha256[0] ? w->sha256 : f && f->sha256[0] ? f->sha256 : NULL;
    if (w->n_files && !f)
        return err_set(e, -ENOENT, "hf:%s/%s: %.200s is missing in the hub's list: the model is not whole there", w->m.owner, w->m.repo, w->m.file);
    return fetch_one(&w->m, path, job->o, sum, w->size ? w->size : f ? f->size : 0, job->r, e);
}

/* Adds what a part that is not here still takes of the disk; of one that was begun, its room is taken already. */
static int add_need(struct wanted *w, const char *path, void *user, struct err *e)
{
    uint64_t *need = user, taken = 0;
    const struct hub_file *f = listed(w, w->m.file);
    struct stat st;
    char *part;
    if (asprintf(&part, "%s.part", path) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    if (stat(part, &st) == 0)
        taken = (uint64_t)st.st_blocks * 512;
    free(part);
    if (f && f->size > taken && __builtin_add_overflow(*need, f->size - taken, need))
        *need = UINT64_MAX;
    return 0;
}

/* Room for all files of a model, before the first is begun. */
static int check_room(struct wanted *w, struct err *e)
{
    struct statvfs fs;
    uint64_t need = 0;
    char *home, *first, *slash;
    bool known;
    int rc = each_missing(w, &first, add_need, &need, e);
    if (rc)
        return rc;
    free(first);
    if ((rc = pull_home(&home, e)))
        return rc;
    while (!(known = statvfs(home, &fs) == 0) && errno == ENOENT && (slash = strrchr(home, '/')) && slash > home)
        *slash = 0; /* it is made later */
    uint64_t have = known ? (uint64_t)fs.f_bavail * fs.f_frsize : 0;
    if (known && need > have)
        rc = err_set(e, -ENOSPC, "%.250s: %.2f GB are needed and %.2f GB are free there: make room, or let ZINC_MODELS name another folder", home,
                     (double)need * 1e-9, (double)have * 1e-9);
    free(home);
    return rc;
}

static int find(const char *name, struct wanted *w, char **path, struct err *e)
{
    int rc = read_name(name, w, e);
    if (!rc && w->m.kind == NAME_REPO_TAG)
        rc = choose_here(&w->m, e);
    return rc ? rc : each_missing(w, path, is_missing, NULL, NULL);
}

int pull_find(const char *name, char **path, struct err *e)
{
    struct wanted w;
    int rc = find(name, &w, path, e);
    return rc == -ENOENT ? err_set(e, rc, "%.200s is not on this machine: zinc pull %.200s", name, name) : rc;
}

/* What is not here: asks the hub where only it knows, then brings all parts. */
static int bring(const char *name, struct wanted *w, const struct pull_opts *o, char **path, struct pull_result *r, struct err *e)
{
    struct job job = { o, r };
    bool split;
    unsigned count = 1;
    int rc = w->m.kind == NAME_REPO_TAG ? choose_on_hub(w, o, e) : 0;
    rc = rc ? rc : count_parts(&w->m, &split, &count, e);
    if (!rc && count > 1 && w->sha256[0])
        rc = err_set(e, -EINVAL, "%.200s: a model in %u files has no single sha256", name, count);
    if (!rc && count > 1 && !w->n_files && w->m.kind == NAME_REPO_FILE)
        rc = hub_list(&w->m, o, w, e);
    if (!rc && w->n_files)
        rc = check_room(w, e);
    return rc ? rc : each_missing(w, path, fetch_missing, &job, e);
}

int pull_model(const char *name, const struct pull_opts *o, char **path, struct pull_result *r, struct err *e)
{
    struct wanted w;
    struct pull_result unseen;
    r = r ? r : &unseen;
    *r = (struct pull_result){ 0 };
    int rc = find(name, &w, path, e);
    if (rc != -ENOENT)
        return rc;
    if (is_offline(o))
        return err_set(e, -ENOENT, "%.200s is not on this machine, and offline nothing is pulled (--offline, ZINC_OFFLINE)", name);
    if ((rc = hub_check_endpoint(e)))
        return rc;
    if (o->sha256 && !sha256_from_text(o->sha256, w.sha256))
        return err_set(e, -EINVAL, "'%.100s' is no sha256: 64 hex digits are expected", o->sha256);
    /* A connection that is gone and a file that grows beyond a limit are errors of the calls that meet them. */
    sighandler_t on_pipe = signal(SIGPIPE, SIG_IGN), on_size = signal(SIGXFSZ, SIG_IGN);
    rc = bring(name, &w, o, path, r, e);
    signal(SIGPIPE, on_pipe);
    signal(SIGXFSZ, on_size);
    free(w.files);
    return rc;
}
