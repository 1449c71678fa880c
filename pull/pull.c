#include "pull/pull.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/env.h"
#include "pull/fetch.h"
#include "pull/name.h"
#include "pull/sha256.h"

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

/* ---- the hub ---- */

static const char *endpoint(void)
{
    const char *s = getenv("HF_ENDPOINT");
    return s && *s ? s : "https://huggingface.co";
}

static int check_endpoint(struct err *e)
{
    const char *s = endpoint();
    if (strncmp(s, "https://", 8) != 0 && strncmp(s, "http://", 7) != 0)
        return err_set(e, -EINVAL, "HF_ENDPOINT='%.100s': an address that begins with https:// is expected", s);
    return strlen(s) > 300 ? err_set(e, -EINVAL, "HF_ENDPOINT is longer than an address") : 0;
}

/* A token in the clear would be anybody's, but for a server on this machine. */
static bool may_have_token(const char *url)
{
    return strncmp(url, "https://", 8) == 0 || strncmp(url, "http://127.0.0.1:", 17) == 0 || strncmp(url, "http://localhost:", 17) == 0;
}

static int read_token(const char *path, bool must, char **out, struct err *e)
{
    char text[1024] = "";
    FILE *f = fopen(path, "re");
    if (!f)
        return must ? err_set(e, -errno, "%.300s: the token cannot be read: %s", path, strerror(errno)) : 0;
    bool ok = fgets(text, sizeof text, f) != NULL;
    fclose(f);
    text[strcspn(text, "\r\n")] = 0;
    for (const char *p = text; *p; p++)
        ok = ok && *p > 0x20 && *p < 0x7f;
    if (!ok || !text[0] || strlen(text) > 900)
        return must ? err_set(e, -EINVAL, "%.300s: a token in its first line is expected", path) : 0;
    *out = strdup(text);
    return *out ? 0 : err_set(e, -ENOMEM, "out of memory");
}

/* NULL in *out: none. For addresses that are not the hub's only a token that was asked for. */
static int find_token(const struct pull_opts *o, const char *url, bool hub, char **out, struct err *e)
{
    const char *own = getenv("HF_TOKEN"), *hf_home = getenv("HF_HOME"), *home = getenv("HOME");
    char path[512];
    int rc = 0;
    *out = NULL;
    if (o->token_file)
        rc = read_token(o->token_file, true, out, e);
    else if (hub && own && *own)
        rc = (*out = strdup(own)) ? 0 : err_set(e, -ENOMEM, "out of memory");
    else if (hub && hf_home && *hf_home && snprintf(path, sizeof path, "%s/token", hf_home) < (int)sizeof path)
        rc = read_token(path, false, out, e);
    else if (hub && home && *home && snprintf(path, sizeof path, "%s/.cache/huggingface/token", home) < (int)sizeof path)
        rc = read_token(path, false, out, e);
    if (!rc && *out && !may_have_token(url)) {
        rc = err_set(e, -EACCES, "%.200s: a token is not sent without encryption: an https address is expected, or no token", url);
        free(*out);
        *out = NULL;
    }
    return rc;
}

/* The address of a file of a repository: what is not safe in a path is written as %XX (RFC 3986). */
static char *hub_url(const struct model_name *m)
{
    char path[3 * NAME_FILE], *url, *p = path;
    for (const char *s = m->file; *s; s++)
        p += (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr("/._-~+", *s)
                 ? sprintf(p, "%c", *s)
                 : sprintf(p, "%%%02X", (unsigned char)*s);
    const char *base = endpoint();
    size_t n = strlen(base);
    while (n && base[n - 1] == '/')
        n--;
    return asprintf(&url, "%.*s/%s/%s/resolve/main/%s", (int)n, base, m->owner, m->repo, path) < 0 ? NULL : url;
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
    char *url = hub ? hub_url(m) : strdup(m->url), *token = NULL, *folder = strdup(path);
    int rc = url && folder ? 0 : err_set(e, -ENOMEM, "out of memory");
    if (!rc && !(rc = find_token(o, url, hub, &token, e)) && !(rc = make_folders(folder, e))) {
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

/* All parts of the model whose first file m names. */
static int fetch_parts(struct model_name *m, const struct pull_opts *o, const char *sha256, char **path, struct pull_result *r, struct err *e)
{
    unsigned no = 1, count = 1;
    char *name = m->kind == NAME_URL ? m->url : m->file, *first = NULL;
    bool split = m->kind != NAME_URL || !strpbrk(name, "?#") ? name_split(name, &no, &count) : false;
    if (split && no != 1)
        return err_set(e, -EINVAL, "'%.200s' is part %u of %u: name the first, which brings the others", name, no, count);
    if (count > 1 && sha256)
        return err_set(e, -EINVAL, "'%.200s': a model in %u files has no single sha256", name, count);
    int rc = 0;
    for (unsigned i = 1; i <= count && !rc; i++) {
        char *at = NULL;
        if (split)
            name_set_part(name, i);
        if ((rc = path_of(m, &at, e)))
            break;
        if (access(at, F_OK) != 0)
            rc = is_offline(o) ? err_set(e, -ENOENT, "%.250s is not here, and offline nothing is pulled (--offline, ZINC_OFFLINE)", at)
                               : fetch_one(m, at, o, sha256, 0, r, e);
        if (i == 1)
            first = at;
        else
            free(at);
    }
    if (split)
        name_set_part(name, 1);
    if (rc) {
        free(first);
        return rc;
    }
    *path = first;
    return 0;
}

int pull_model(const char *name, const struct pull_opts *o, char **path, struct pull_result *r, struct err *e)
{
    struct model_name m;
    struct pull_result unseen;
    char sum[SHA256_TEXT];
    int rc = name_parse(name, &m, e);
    r = r ? r : &unseen;
    *r = (struct pull_result){ 0 };
    if (!rc)
        rc = check_endpoint(e);
    if (!rc && o->sha256 && !sha256_from_text(o->sha256, sum))
        rc = err_set(e, -EINVAL, "'%.100s' is no sha256: 64 hex digits are expected", o->sha256);
    return rc ? rc : fetch_parts(&m, o, o->sha256 ? sum : NULL, path, r, e);
}
