/* pull/hub.h: what a repository on the hub holds, and which of its files is meant.
 *
 * GET ENDPOINT/api/models/OWNER/REPO/tree/main?recursive=true answers a JSON array; a file in large file storage is
 * {"type": "file", "path": "m-Q4_K_M.gguf", "size": 123, "lfs": {"oid": "<sha256>", "size": 123, ..}, ..}: huggingface_hub,
 * hf_api.py (list_repo_tree, RepoFile, BlobLfsInfo); huggingface.js, packages/hub/src/lib/list-files.ts. The first page alone is
 * asked for, of some thousand entries: a longer list goes on by a Link header, which no repository of GGUF files was seen to need. */
#ifndef ZINC_PULL_HUB_H
#define ZINC_PULL_HUB_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "pull/name.h"
#include "pull/sha256.h"

enum { HUB_TREE_BYTES = 16 << 20 };

struct hub_file {
    char path[NAME_FILE];
    uint64_t size;            /* bytes; 0: not told */
    char sha256[SHA256_TEXT]; /* "": not told       */
};

/* The model files of an answer, sorted by path, malloc'ed; parts of a model are files of their own. Other files are left out,
 * and so are names that name_file_is_safe refuses: n_refused counts them. -EINVAL: it is no such answer. */
int hub_read_tree(const char *text, size_t n, struct hub_file **files, size_t *n_files, size_t *n_refused, struct err *e);

/* Which file is of type `tag` ("Q4_K_M", in any case; of a model in parts the first). "" leaves it to zinc: Q4_K_M if all of it
 * is at most `memory` bytes (0: not known), else the largest that is; `why` then gets a line about it. -ENOENT with the types
 * that there are, -EINVAL where several files are of that type. */
int hub_choose(const struct hub_file *files, size_t n, const char *tag, uint64_t memory, size_t *which, char why[200], struct err *e);

/* The bytes of files[i], of a model in parts of all of them; 0: not told. */
uint64_t hub_model_bytes(const struct hub_file *files, size_t n, size_t i);

#endif
