/* pull/pull.h: models by name: from a name to a file on this machine, pulled where it is not here yet.
 *
 *     char *path;
 *     int rc = pull_find("hf:owner/repo:Q4_K_M", &path, &e);
 *     if (rc == -ENOENT) ... pull_model("hf:owner/repo:Q4_K_M", &opts, &path, NULL, &e)
 *
 * Files lie in $ZINC_MODELS, else $XDG_DATA_HOME/zinc/models, else ~/.local/share/zinc/models (XDG Base Directory
 * Specification): hf/OWNER/REPO/FILE and https/HOST/PATH. Of a model in several files the first part is its path.
 * The hub is where hub_access.h says. */
#ifndef ZINC_PULL_PULL_H
#define ZINC_PULL_PULL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/flag.h"
#include "base/progress.h"

struct pull_opts {
    bool offline;             /* as ZINC_OFFLINE=1: only what is here      */
    unsigned connections;     /* 0: as many as fetch.h says                */
    const char *token_file;   /* NULL: as above                            */
    const char *sha256;       /* expected of a model in one file; NULL: what the hub or the catalogue says */
    const struct progress *progress;
    const struct flag *cancel;
    void (*say)(const char *line);
};

struct pull_result {
    uint32_t n_files, n_verified; /* of this call, those that were here already not counted */
    uint64_t bytes, received, ns;
};

/* The folder of models; malloc'ed. -ENOENT: no variable tells it, not even HOME. */
int pull_home(char **path, struct err *e);

/* Bytes of this machine's memory, which a model has to fit; 0: not known. */
uint64_t pull_memory(void);

/* The path of a model that is here; malloc'ed. -ENOENT after a message: it is not; -EINVAL: no such name can be. */
int pull_find(const char *name, char **path, struct err *e);

/* The same, and brings what is not here. r may be NULL. */
int pull_model(const char *name, const struct pull_opts *o, char **path, struct pull_result *r, struct err *e);

#endif
