/* Fuzzes the interpreter of templates: the input is a template, and behind a line == perhaps JSON variables.
 *
 * What must hold: nothing crashes, limits are kept, an error has a line of text, and what came in as data is never
 * put out as the template's own. For that every string of the variables d and messages holds a character of the
 * private use area, and inputs that can write it themselves are left out.
 *
 * fixed runs: 20000 */
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "\xee\x80\x80"

static const char variables[] =
    "{\"d\": \"" SECRET "\", \"add_generation_prompt\": true, \"n\": 3, \"messages\": ["
    "{\"role\": \"system\", \"content\": \" " SECRET " \"}, {\"role\": \"user\", \"content\": \"" SECRET "a," SECRET "\"},"
    "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"" SECRET "\", \"function\": {\"name\": \"" SECRET
    "\", \"arguments\": {\"" SECRET "\": [1, 2.5, \"" SECRET "\"]}}}]}, {\"role\": \"tool\", \"content\": [{\"type\": \"text\", "
    "\"text\": \"" SECRET "\"}]}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"" SECRET
    "\", \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {\"type\": \"string\"}}}}}]}";

struct seen {
    size_t n;
    bool checked;
};

static int put(void *user, const char *s, size_t n, bool is_data)
{
    struct seen *g = user;
    CHECK(n > 0);
    CHECK(is_data || !g->checked || !memmem(s, n, SECRET, 3));
    g->n += n;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char sep[] = "\n==\n";
    const char *s = (const char *)data, *end = size ? memmem(s, size, sep, 4) : NULL;
    size_t n = end ? (size_t)(end - s) : size;
    struct jinja *t = NULL;
    struct err e = { 0 };
    int rc = jinja_parse(s, n, &t, &e);
    CHECK(rc == 0 || ((rc == -EINVAL || rc == -E2BIG) && e.msg[0] && !t));
    if (rc)
        return 0;
    json_t *own = json_pack("{s:s}", "bos_token", "<s>");
    json_t *vars = end ? json_read(end + 4, size - n - 4, JSON_ALLOW_NUL, NULL, NULL) : NULL;
    struct seen g = { .checked = !vars && !memmem(s, n, SECRET, 3) && !memmem(s, n, "\\u", 2) && !memmem(s, n, "\\U", 2) };
    if (!vars)
        vars = json_loads(variables, 0, NULL);
    struct tm now = { .tm_year = 125, .tm_mday = 1 };
    static const char *const roles[] = { "system", "user", "assistant", "tool", NULL };
    struct jinja_opts o = { .own = own, .data = vars, .roles = roles, .now = &now, .max_steps = 100000,
                            .max_memory = 8 << 20, .max_output = 1 << 20 };
    rc = jinja_render(t, &o, put, &g, &e);
    CHECK(g.n <= o.max_output);
    CHECK(rc == 0 || ((rc == -EINVAL || rc == -E2BIG || rc == -EPERM) && !memchr(e.msg, '\n', strlen(e.msg))));
    json_decref(own);
    json_decref(vars);
    jinja_free(t);
    return 0;
}
