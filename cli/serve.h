/* cli/serve.h: the models of `zinc serve --models`. */
#ifndef ZINC_CLI_SERVE_H
#define ZINC_CLI_SERVE_H

#include "cli/args.h"
#include "server/router/router.h"

enum { SERVE_MOST_MODELS = 256 };

struct serve_models {
    struct router_model *m; /* [n] */
    uint32_t n;
    void *owned;            /* all their strings */
};

/* what: a folder, a list in TOML, or "pulled". tables: the options that a model's process can be given, each ending with name
 * NULL, NULL behind the last table; those of the command line are given to all. 0 or an exit status after a message. */
int serve_models_list(const char *what, const struct opt *const *tables, uint32_t unload_after_s, struct serve_models *out);
void serve_models_free(struct serve_models *m);

#endif
