/* pull/hub_access.h: where the hub is, and the token for it.
 *
 * ENDPOINT is HF_ENDPOINT, else https://huggingface.co. A file is at ENDPOINT/OWNER/REPO/resolve/main/FILE, a repository's list
 * at ENDPOINT/api/models/OWNER/REPO/tree/main. The token is in HF_TOKEN, else in the file $HF_HOME/token, else
 * ~/.cache/huggingface/token. All are huggingface_hub's: constants.py, file_download.py, hf_api.py; and the hub's own
 * documentation has them, "Environment variables" and "Hub API Endpoints". */
#ifndef ZINC_PULL_HUB_ACCESS_H
#define ZINC_PULL_HUB_ACCESS_H

#include <stdbool.h>

#include "base/err.h"
#include "pull/name.h"

/* -EINVAL: HF_ENDPOINT is no address. */
int hub_check_endpoint(struct err *e);

/* Addresses, malloc'ed; what is not safe in a path is written as %XX (RFC 3986). NULL: out of memory. */
char *hub_file_url(const struct model_name *m); /* m->file of NAME_REPO_FILE */
char *hub_tree_url(const struct model_name *m);

/* The token for `url`, malloc'ed; NULL in *out: none. `file` names where it is, or NULL: as above, for the hub; other addresses
 * are sent none that was not asked for by a file. -EACCES: there is one, and the address is neither https nor this machine. */
int hub_token(const char *file, const char *url, bool hub, char **out, struct err *e);

#endif
