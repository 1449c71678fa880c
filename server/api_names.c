/* The names of the one model that is served, and what happens to requests for others. Ollama answers those 404, llama.cpp's
 * server serves them (the examples of its tools/server/README.md ask for gpt-3.5-turbo): clients often have a fixed name
 * in them. Here that is chosen. */
#include <fnmatch.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/api_request.h"

enum { MAX_TOLD = 16 }; /* names that the log tells, so that no client fills it */

struct api_names {
    const char *name;
    const char *const *aliases;
    uint32_t n;
    bool strict;
    pthread_mutex_t lock; /* of what follows */
    uint64_t told[MAX_TOLD]; /* hashes */
    uint32_t n_told;
};

struct api_names *api_names_create(const char *name, const char *const *aliases, uint32_t n, bool strict)
{
    struct api_names *names = calloc(1, sizeof *names);
    if (!names)
        return NULL;
    names->name = name;
    names->aliases = aliases;
    names->n = n;
    names->strict = strict;
    pthread_mutex_init(&names->lock, NULL);
    return names;
}

void api_names_destroy(struct api_names *names)
{
    if (!names)
        return;
    pthread_mutex_destroy(&names->lock);
    free(names);
}

static bool is_or_latest(const char *own, const char *name)
{
    size_t n = strlen(own);
    return strncmp(name, own, n) == 0 && (!name[n] || strcmp(name + n, ":latest") == 0);
}

bool api_names_has(const struct api_names *names, const char *name)
{
    if (!*name || is_or_latest(names->name, name))
        return true;
    for (uint32_t i = 0; i < names->n; i++)
        if (is_or_latest(names->aliases[i], name) ||
            (strchr(names->aliases[i], '*') && fnmatch(names->aliases[i], name, FNM_NOESCAPE) == 0))
            return true;
    return false;
}

int api_names_refuse(const struct api_names *names, const char *name, struct api_problem *p)
{
    return api_refuse(p, 404, "model_not_found", "model", "there is no model '%.200s', this server has '%.200s'", name,
                      names->name);
}

/* True once for each name, as long as there is room. */
static bool is_news(struct api_names *names, const char *name)
{
    uint64_t h = 0xcbf29ce484222325ull; /* FNV-1a */
    for (const char *s = name; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3ull;
    pthread_mutex_lock(&names->lock);
    bool news = names->n_told < MAX_TOLD;
    for (uint32_t i = 0; i < names->n_told; i++)
        news &= names->told[i] != h;
    if (news)
        names->told[names->n_told++] = h;
    pthread_mutex_unlock(&names->lock);
    return news;
}

/* A client's text in a line of a log: printable ASCII. */
static void tell(const struct api_names *names, const char *name)
{
    char shown[101];
    size_t n = 0;
    for (; name[n] && n < sizeof shown - 1; n++)
        shown[n] = name[n] >= ' ' && name[n] <= '~' ? name[n] : '?';
    shown[n] = 0;
    log_warn(SERVER, "a request asks for the model '%s' and is answered by '%s': --alias makes that a name of it, "
             "--strict-model refuses", shown, names->name);
}

int api_names_ask(struct api_names *names, const char *name, struct api_problem *p)
{
    if (api_names_has(names, name))
        return 0;
    if (names->strict)
        return api_names_refuse(names, name, p);
    if (is_news(names, name))
        tell(names, name);
    return 0;
}
