#include "pull/hub_access.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Its first *n bytes, without slashes at the end. */
static const char *endpoint(size_t *n)
{
    const char *s = getenv("HF_ENDPOINT");
    s = s && *s ? s : "https://huggingface.co";
    for (*n = strlen(s); *n && s[*n - 1] == '/';)
        --*n;
    return s;
}

int hub_check_endpoint(struct err *e)
{
    size_t n;
    const char *s = endpoint(&n);
    if (strncmp(s, "https://", 8) != 0 && strncmp(s, "http://", 7) != 0)
        return err_set(e, -EINVAL, "HF_ENDPOINT='%.100s': an address that begins with https:// is expected", s);
    return n > 300 || strpbrk(s, "@?#\\ \n") ? err_set(e, -EINVAL, "HF_ENDPOINT: an address without a user's name and without a query is expected") : 0;
}

/* A token in the clear would be anybody's, but for a server on this machine. */
static bool may_have_token(const char *url)
{
    return strncmp(url, "https://", 8) == 0 || strncmp(url, "http://127.0.0.1:", 17) == 0 || strncmp(url, "http://localhost:", 17) == 0;
}

/* It becomes part of a header line. */
static bool is_token(const char *s)
{
    size_t n = strlen(s);
    for (const char *p = s; *p; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return false;
    return n > 0 && n <= 900;
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
    if (!ok || !is_token(text))
        return must ? err_set(e, -EINVAL, "%.300s: a token in its first line is expected", path) : 0;
    *out = strdup(text);
    return *out ? 0 : err_set(e, -ENOMEM, "out of memory");
}

int hub_token(const char *file, const char *url, bool hub, char **out, struct err *e)
{
    const char *own = getenv("HF_TOKEN"), *hf_home = getenv("HF_HOME"), *home = getenv("HOME");
    char path[512];
    int rc = 0;
    *out = NULL;
    if (file)
        rc = read_token(file, true, out, e);
    else if (hub && own && *own)
        rc = !is_token(own) ? err_set(e, -EINVAL, "HF_TOKEN is no token: one word is expected") : (*out = strdup(own)) ? 0 : err_set(e, -ENOMEM, "out of memory");
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
char *hub_file_url(const struct model_name *m)
{
    char path[3 * NAME_FILE], *url, *p = path;
    for (const char *s = m->file; *s; s++)
        p += (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || strchr("/._-~+", *s)
                 ? sprintf(p, "%c", *s)
                 : sprintf(p, "%%%02X", (unsigned char)*s);
    size_t n;
    const char *base = endpoint(&n);
    return asprintf(&url, "%.*s/%s/%s/resolve/main/%s", (int)n, base, m->owner, m->repo, path) < 0 ? NULL : url;
}

char *hub_tree_url(const struct model_name *m)
{
    char *url;
    size_t n;
    const char *base = endpoint(&n);
    return asprintf(&url, "%.*s/api/models/%s/%s/tree/main?recursive=true", (int)n, base, m->owner, m->repo) < 0 ? NULL : url;
}
