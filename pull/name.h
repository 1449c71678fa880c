/* pull/name.h: how a model is named where it is not named by its path.
 *
 *     hf:OWNER/REPO:FILE.gguf          a file of a repository on the hub (FILE may lie in folders)
 *     hf:OWNER/REPO:Q4_K_M             the file of that type there; hf:OWNER/REPO leaves the type to zinc
 *     https://HOST/PATH/FILE.gguf      an address (http as well)
 *     qwen3-4b                         an entry of the catalogue (zinc model search)
 *
 * A name gives a place below the folder of models, made of parts that were checked: none is empty, "." or "..", begins with a
 * dot, or holds anything but printable characters without '\\'. */
#ifndef ZINC_PULL_NAME_H
#define ZINC_PULL_NAME_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum { NAME_PART = 97, NAME_TAG = 65, NAME_FILE = 401, NAME_URL_BYTES = 1025, NAME_PLACE = 640 };

enum name_kind { NAME_REPO_FILE, NAME_REPO_TAG, NAME_URL, NAME_CATALOGUE };

struct model_name {
    enum name_kind kind;
    char owner[NAME_PART], repo[NAME_PART]; /* NAME_REPO_*                             */
    char file[NAME_FILE];                   /* NAME_REPO_FILE: path in the repository   */
    char tag[NAME_TAG];                     /* NAME_REPO_TAG: "" when none was given; NAME_CATALOGUE: the id */
    char url[NAME_URL_BYTES];               /* NAME_URL */
};

/* Whether it looks like a name of the first three kinds, rather than a path. */
bool name_has_scheme(const char *s);
/* 0 or -EINVAL after a message that shows the form that is expected. */
int name_parse(const char *s, struct model_name *out, struct err *e);
/* A path in a repository or below the folder of models, as above, that ends with .gguf. */
bool name_file_is_safe(const char *path);
/* Where the file lies below the folder of models: "hf/OWNER/REPO/FILE", "https/HOST/PATH". NAME_REPO_FILE and NAME_URL only;
 * NAME_REPO_TAG gives the repository's folder. */
void name_place(const struct model_name *m, char out[NAME_PLACE]);
/* The other way round: "hf:OWNER/REPO:FILE" or the address; false: no name gives this place. */
bool name_of_place(const char *place, char *out, size_t n);

/* The type that a file's name ends with: "Q4_K_M" of "m-Q4_K_M.gguf", "UD-Q4_K_XL" of "m-UD-Q4_K_XL-00001-of-00002.gguf": what
 * stands behind the last '-' or '.', with "UD-" before it. False: there is none. */
bool name_type(const char *file, char out[NAME_TAG]);

/* Of "m-00001-of-00003.gguf" how many parts there are, and which this is; false: it is not one of several. */
bool name_split(const char *file, unsigned *no, unsigned *count);
/* Puts the number of another part into a name that name_split knows. */
void name_set_part(char *file, unsigned no);

#endif
