/* What servers and files tell zinc pull. The first byte chooses: a name as a person types it, header lines of an answer, the
 * hub's list of files, a catalogue, the state of a file that is not whole. What is accepted must hold what the rest relies on. */
#include <stdlib.h>
#include <string.h>

#include "pull/catalogue.h"
#include "pull/http.h"
#include "pull/hub.h"
#include "pull/name.h"
#include "pull/part.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* No place leaves the folder of models. */
static void must_be_inside(const char *place)
{
    must(place[0] && place[0] != '/' && !strstr(place, "/../") && !strstr(place, "//") && !strstr(place, "/./"));
}

static void read_name(const char *s)
{
    struct model_name m;
    char place[NAME_PLACE], again[NAME_URL_BYTES];
    struct err e = { 0 };
    if (name_parse(s, &m, &e)) {
        must(e.msg[0] && strlen(e.msg) < sizeof e.msg);
        return;
    }
    name_place(&m, place);
    if (m.kind == NAME_CATALOGUE)
        return;
    must_be_inside(place);
    if (m.kind == NAME_REPO_FILE)
        must(name_of_place(place, again, sizeof again) && strcmp(again, s) == 0);
}

static void read_head(const char *s, size_t n)
{
    struct http_head h = { 0 };
    for (size_t len; n; s += len, n -= len) {
        const char *end = memchr(s, '\n', n);
        len = end ? (size_t)(end - s) + 1 : n;
        http_head_line(&h, s, len);
        must(strlen(h.etag) < HTTP_ETAG && strlen(h.linked_etag) < HTTP_ETAG);
        must(!h.has_range || (h.first <= h.last && h.last < h.total));
    }
}

static void read_tree(const char *s, size_t n)
{
    struct hub_file *f;
    size_t n_files, refused, which;
    char why[200];
    struct err e = { 0 };
    static const char *const tags[] = { "", "Q4_K_M", "UD-Q4_K_XL", "f16" };
    if (hub_read_tree(s, n, &f, &n_files, &refused, &e))
        return;
    for (size_t i = 0; i < n_files; i++) {
        must(name_file_is_safe(f[i].path));
        must_be_inside(f[i].path);
        hub_model_bytes(f, n_files, i);
    }
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (!hub_choose(f, n_files, tags[i], 1000, &which, why, &e))
            must(which < n_files && strlen(why) < sizeof why);
    free(f);
}

static void read_catalogue(const char *s, size_t n)
{
    struct catalogue_entry *c;
    size_t n_entries;
    struct err e = { 0 };
    if (catalogue_read(s, n, &c, &n_entries, &e))
        return;
    for (size_t i = 0; i < n_entries; i++)
        must(catalogue_find(c, n_entries, c[i].id) == &c[i]);
    free(c);
}

static void read_state(const char *s, size_t n)
{
    struct part_state state, again;
    if (part_state_read(s, n, &state))
        return;
    must(part_state_done(&state) <= state.size && part_state_front(&state) <= part_state_done(&state));
    char *text = part_state_write(&state);
    must(text && part_state_read(text, strlen(text), &again) == 0);
    must(again.size == state.size && again.n == state.n && memcmp(again.done, state.done, state.n * sizeof *state.done) == 0);
    part_state_clear(&again);
    part_state_clear(&state);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n)
        return 0;
    char *text = malloc(n);
    must(text != NULL);
    memcpy(text, data + 1, n - 1);
    text[n - 1] = 0;
    switch (data[0]) {
    case 'n': read_name(text); break;
    case 'h': read_head(text, n - 1); break;
    case 't': read_tree(text, n - 1); break;
    case 'c': read_catalogue(text, n - 1); break;
    case 'p': read_state(text, n - 1); break;
    default: break;
    }
    free(text);
    return 0;
}
