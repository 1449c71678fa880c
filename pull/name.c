#include "pull/name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool name_has_scheme(const char *s)
{
    return strncmp(s, "hf:", 3) == 0 || strncmp(s, "http://", 7) == 0 || strncmp(s, "https://", 8) == 0;
}

static bool ends_with(const char *s, size_t n, const char *end)
{
    size_t k = strlen(end);
    return n > k && strncasecmp(s + n - k, end, k) == 0;
}

/* Letters, digits and "._-", not beginning with a dot: what the hub allows in names of owners and repositories. */
static bool is_word(const char *s, size_t n, size_t max)
{
    if (!n || n >= max || *s == '.')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("._-", s[i]))
            return false;
    return true;
}

bool name_file_is_safe(const char *path)
{
    size_t total = strlen(path), n;
    if (total >= NAME_FILE || !ends_with(path, total, ".gguf"))
        return false;
    for (const char *p = path;; p += n + 1) {
        n = strcspn(p, "/");
        if (!n || n > 200 || *p == '.')
            return false;
        for (size_t i = 0; i < n; i++)
            if (!isprint((unsigned char)p[i]) || strchr("\\\"?#%", p[i]))
                return false;
        if (!p[n])
            return true;
    }
}

static int parse_hub(const char *s, struct model_name *out, struct err *e)
{
    const char *owner = s + 3, *repo = owner + strcspn(owner, "/:"), *rest;
    size_t n_owner = (size_t)(repo - owner), n_repo;
    bool slash = *repo == '/';
    repo += slash;
    n_repo = strcspn(repo, ":");
    rest = repo[n_repo] ? repo + n_repo + 1 : NULL;
    if (!slash || !is_word(owner, n_owner, NAME_PART) || !is_word(repo, n_repo, NAME_PART))
        return err_set(e, -EINVAL, "'%.200s' is no name of a model: hf:OWNER/REPO:FILE.gguf or hf:OWNER/REPO:Q4_K_M is expected", s);
    memcpy(out->owner, owner, n_owner);
    memcpy(out->repo, repo, n_repo);
    out->kind = NAME_REPO_TAG;
    if (!rest)
        return 0;
    if (ends_with(rest, strlen(rest), ".gguf") || strchr(rest, '/')) {
        if (!name_file_is_safe(rest))
            return err_set(e, -EINVAL, "'%.200s': the file's name is not one that is taken from the network: a path without '..', "
                           "ending with .gguf, is expected", s);
        out->kind = NAME_REPO_FILE;
        strcpy(out->file, rest);
        return 0;
    }
    if (!is_word(rest, strlen(rest), NAME_TAG))
        return err_set(e, -EINVAL, "'%.200s': after the repository a file's name or a type (Q4_K_M) is expected", s);
    strcpy(out->tag, rest);
    return 0;
}

/* "host" or "host:port" of an address, and its path without the slash. */
static const char *split_url(const char *url, size_t *n_host, const char **path, size_t *n_path)
{
    const char *host = strstr(url, "://") + 3;
    *n_host = strcspn(host, "/?#");
    *path = host + *n_host + (host[*n_host] == '/');
    *n_path = strcspn(*path, "?#");
    return host;
}

static int parse_url(const char *s, struct model_name *out, struct err *e)
{
    size_t n_host, n_path;
    const char *path, *host = split_url(s, &n_host, &path, &n_path);
    char file[NAME_FILE];
    if (strlen(s) >= NAME_URL_BYTES)
        return err_set(e, -EINVAL, "'%.100s...': an address of at most %d bytes is expected", s, NAME_URL_BYTES - 1);
    if (memchr(host, '@', n_host))
        return err_set(e, -EINVAL, "addresses with a user's name or password in them are not taken: --token-file FILE");
    for (size_t i = 0; i < n_host; i++)
        if (!isalnum((unsigned char)host[i]) && !strchr(".-:[]", host[i]))
            n_host = 0;
    snprintf(file, sizeof file, "%.*s", (int)(n_path < sizeof file ? n_path : 0), path);
    if (!n_host || n_host > 255 || *host == '.' || !name_file_is_safe(file))
        return err_set(e, -EINVAL, "'%.200s': an address whose path ends with .gguf, without '..', is expected", s);
    out->kind = NAME_URL;
    strcpy(out->url, s);
    return 0;
}

int name_parse(const char *s, struct model_name *out, struct err *e)
{
    *out = (struct model_name){ .kind = NAME_CATALOGUE };
    if (strncmp(s, "hf:", 3) == 0)
        return parse_hub(s, out, e);
    if (name_has_scheme(s))
        return parse_url(s, out, e);
    if (!is_word(s, strlen(s), NAME_TAG) || ends_with(s, strlen(s), ".gguf"))
        return err_set(e, -EINVAL, "'%.200s' is no name of a model: hf:OWNER/REPO:FILE.gguf, an https address, or a name that "
                       "zinc model search prints", s);
    strcpy(out->tag, s);
    return 0;
}

void name_place(const struct model_name *m, char out[NAME_PLACE])
{
    size_t n_host, n_path;
    const char *path, *host;
    switch (m->kind) {
    case NAME_REPO_FILE: snprintf(out, NAME_PLACE, "hf/%s/%s/%s", m->owner, m->repo, m->file); return;
    case NAME_REPO_TAG: snprintf(out, NAME_PLACE, "hf/%s/%s", m->owner, m->repo); return;
    case NAME_URL:
        host = split_url(m->url, &n_host, &path, &n_path);
        snprintf(out, NAME_PLACE, "%s/%.*s/%.*s", m->url[4] == 's' ? "https" : "http", (int)n_host, host, (int)n_path, path);
        return;
    case NAME_CATALOGUE: break;
    }
    out[0] = 0;
}

bool name_of_place(const char *place, char *out, size_t n)
{
    struct model_name m;
    const char *slash = strchr(place, '/'), *owner = slash ? slash + 1 : "", *repo = strchr(owner, '/'), *file = repo ? strchr(repo + 1, '/') : NULL;
    char again[NAME_PLACE];
    int len = -1;
    if (strncmp(place, "hf/", 3) == 0 && file)
        len = snprintf(out, n, "hf:%.*s:%s", (int)(file - owner), owner, file + 1);
    else if (strncmp(place, "http", 4) == 0 && slash)
        len = snprintf(out, n, "%.*s://%s", (int)(slash - place), place, owner);
    if (len < 0 || (size_t)len >= n || name_parse(out, &m, NULL) || m.kind == NAME_REPO_TAG)
        return false;
    name_place(&m, again);
    return strcmp(again, place) == 0;
}

/* ---- models in several files ---- */

enum { SUFFIX = sizeof "-00001-of-00002.gguf" - 1 };

static bool digits(const char *s, unsigned *out)
{
    *out = 0;
    for (int i = 0; i < 5; i++) {
        if (!isdigit((unsigned char)s[i]))
            return false;
        *out = *out * 10 + (unsigned)(s[i] - '0');
    }
    return true;
}

bool name_split(const char *file, unsigned *no, unsigned *count)
{
    size_t n = strlen(file);
    const char *s = n > SUFFIX ? file + n - SUFFIX : NULL;
    return s && s[0] == '-' && digits(s + 1, no) && strncmp(s + 6, "-of-", 4) == 0 && digits(s + 10, count) && *no >= 1 && *no <= *count;
}

void name_set_part(char *file, unsigned no)
{
    char text[16];
    snprintf(text, sizeof text, "%05u", no % 100000);
    memcpy(file + strlen(file) - SUFFIX + 1, text, 5);
}

bool name_type(const char *file, char out[NAME_TAG])
{
    unsigned no, count;
    const char *base = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
    size_t n = strlen(base), cut = name_split(file, &no, &count) ? SUFFIX : sizeof ".gguf" - 1;
    if (n <= cut)
        return false;
    const char *end = base + n - cut, *s = end;
    while (s > base && s[-1] != '-' && s[-1] != '.')
        s--;
    if (s == base || s == end)
        return false;
    if (s - base >= 3 && strncasecmp(s - 3, "UD-", 3) == 0 && (s - base == 3 || s[-4] == '-' || s[-4] == '.'))
        s -= 3;
    if (end - s >= NAME_TAG)
        return false;
    memcpy(out, s, (size_t)(end - s));
    out[end - s] = 0;
    return true;
}
