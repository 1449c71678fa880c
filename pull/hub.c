#include "pull/hub.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"

enum { MAX_FILES = 20000 };

static const char default_type[] = "Q4_K_M";

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct hub_file *)a)->path, ((const struct hub_file *)b)->path);
}

static uint64_t size_of(const json_t *o)
{
    json_int_t v = json_integer_value(json_object_get(o, "size"));
    return v > 0 ? (uint64_t)v : 0;
}

/* False: not a model's file. */
static bool read_entry(const json_t *o, struct hub_file *f, size_t *n_refused)
{
    const char *type = json_string_value(json_object_get(o, "type")), *path = json_string_value(json_object_get(o, "path"));
    const json_t *lfs = json_object_get(o, "lfs");
    size_t n = path ? strlen(path) : 0;
    *f = (struct hub_file){ .size = size_of(lfs) ? size_of(lfs) : size_of(o) };
    if (!type || strcmp(type, "file") != 0 || n < 5 || strcasecmp(path + n - 5, ".gguf") != 0)
        return false;
    if (!name_file_is_safe(path)) {
        ++*n_refused;
        return false;
    }
    const char *oid = json_string_value(json_object_get(lfs, "oid"));
    if (oid && !sha256_from_text(oid, f->sha256))
        f->sha256[0] = 0;
    strcpy(f->path, path);
    return true;
}

int hub_read_tree(const char *text, size_t n, struct hub_file **files, size_t *n_files, size_t *n_refused, struct err *e)
{
    json_error_t je;
    bool no_memory;
    json_t *all = json_read(text, n, 0, &je, &no_memory);
    size_t n_all = json_array_size(all);
    *files = NULL;
    *n_files = *n_refused = 0;
    int rc = no_memory ? err_set(e, -ENOMEM, "out of memory")
             : !all ? err_set(e, -EINVAL, "the hub's list of files is no JSON: line %d: %.120s", je.line, je.text)
             : !json_is_array(all) ? err_set(e, -EINVAL, "the hub's list of files is no array")
             : n_all > MAX_FILES ? err_set(e, -EINVAL, "the hub lists %zu files, at most %d are expected", n_all, MAX_FILES) : 0;
    struct hub_file *f = rc ? NULL : calloc(n_all + 1, sizeof *f);
    if (!rc && !f)
        rc = err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; !rc && i < n_all; i++)
        *n_files += read_entry(json_array_get(all, i), &f[*n_files], n_refused);
    json_decref(all);
    if (rc)
        return rc;
    qsort(f, *n_files, sizeof *f, by_path);
    *files = f;
    return 0;
}

/* Whether it is a model by itself or the first part of one, and no companion of a model. */
static bool is_model(const struct hub_file *f)
{
    unsigned no, count;
    const char *base = strrchr(f->path, '/') ? strrchr(f->path, '/') + 1 : f->path;
    return strncasecmp(base, "mmproj", 6) != 0 && strncasecmp(base, "imatrix", 7) != 0 && (!name_split(f->path, &no, &count) || no == 1);
}

uint64_t hub_model_bytes(const struct hub_file *files, size_t n, size_t i)
{
    unsigned no = 1, count = 1, other_no, other_count;
    size_t stem = strlen(files[i].path);
    uint64_t bytes = 0;
    if (!name_split(files[i].path, &no, &count))
        return files[i].size;
    stem -= strlen("-00001-of-00002.gguf");
    for (size_t k = 0; k < n; k++)
        if (name_split(files[k].path, &other_no, &other_count) && other_count == count &&
            strlen(files[k].path) == strlen(files[i].path) && memcmp(files[k].path, files[i].path, stem) == 0) {
            if (!files[k].size || __builtin_add_overflow(bytes, files[k].size, &bytes))
                return 0;
        }
    return bytes;
}

static bool has_type(const struct hub_file *f, const char *tag)
{
    char type[NAME_TAG];
    return is_model(f) && name_type(f->path, type) && strcasecmp(type, tag) == 0;
}

/* The types that there are, as "A B C"; cut with "..." where they are many. */
static void list_types(const struct hub_file *files, size_t n, char out[240])
{
    char type[NAME_TAG];
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < n; i++)
        if (is_model(&files[i]) && name_type(files[i].path, type)) {
            if (used + strlen(type) + 6 > 240) {
                strcpy(out + used, " ...");
                return;
            }
            used += (size_t)sprintf(out + used, used ? " %s" : "%s", type);
        }
}

static int choose_by_size(const struct hub_file *files, size_t n, uint64_t memory, size_t *which, char why[200], struct err *e)
{
    size_t best = n, standard = n, smallest = n, n_models = 0;
    uint64_t best_bytes = 0, least = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = hub_model_bytes(files, n, i);
        if (!is_model(&files[i]))
            continue;
        n_models++;
        if (standard == n && has_type(&files[i], default_type))
            standard = i;
        if (bytes && bytes <= memory && bytes > best_bytes) {
            best = i;
            best_bytes = bytes;
        }
        if (bytes && bytes < least) {
            smallest = i;
            least = bytes;
        }
    }
    uint64_t bytes = standard < n ? hub_model_bytes(files, n, standard) : 0;
    if (!n_models)
        return err_set(e, -ENOENT, "the repository holds no GGUF file: one with GGUF files is expected, often its name ends with -GGUF");
    if (standard < n && (!memory || !bytes || bytes <= memory)) {
        *which = standard;
        snprintf(why, 200, "%s is taken, the usual type%s", default_type, bytes && memory ? ", and fits this machine's memory" : "");
    } else if (best < n) {
        *which = best;
        snprintf(why, 200, "%.100s is taken: %s", files[best].path, standard < n ? "the usual Q4_K_M does not fit this machine's memory, this one does"
                                                                    : "the largest that fits this machine's memory");
    } else {
        *which = smallest < n ? smallest : standard;
        if (*which == n)
            for (*which = 0; !is_model(&files[*which]);)
                ++*which;
        snprintf(why, 200, "%.80s is taken, the smallest; it does not seem to fit this machine's memory", files[*which].path);
        if (n_models == 1)
            snprintf(why, 200, "%.120s is the only one there", files[*which].path);
    }
    return 0;
}

int hub_choose(const struct hub_file *files, size_t n, const char *tag, uint64_t memory, size_t *which, char why[200], struct err *e)
{
    char types[240];
    size_t found = n;
    why[0] = 0;
    if (!*tag)
        return choose_by_size(files, n, memory, which, why, e);
    for (size_t i = 0; i < n; i++)
        if (has_type(&files[i], tag)) {
            if (found < n)
                return err_set(e, -EINVAL, "several files are of type %s: %.120s and %.120s: name one", tag, files[found].path, files[i].path);
            found = i;
        }
    *which = found;
    if (found < n)
        return 0;
    list_types(files, n, types);
    return types[0] ? err_set(e, -ENOENT, "no file is of type %s; there are: %s", tag, types)
                    : err_set(e, -ENOENT, "the repository holds no GGUF file: one with GGUF files is expected, often its name ends with -GGUF");
}
