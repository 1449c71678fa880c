/* A regular expression as a grammar of plain text: the set of strings that schemas have for `pattern`, written as it
 * stands instead of inside a JSON string. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/json_schema.h"
#include "engine/grammar/json_schema_impl.h"

/* Without the anchors at its ends, which say nothing where the whole text has to match. */
static char *anchored(const char *regex)
{
    size_t n = strlen(regex), slashes = 0, from = n && regex[0] == '^';
    while (n > from + 1 && slashes < n - from - 1 && regex[n - 2 - slashes] == '\\')
        slashes++;
    size_t len = n - from - (n > from && regex[n - 1] == '$' && slashes % 2 == 0);
    char *s = malloc(len + 8);
    if (!s)
        return NULL;
    memcpy(s, "^(?:", 4);
    memcpy(s + 4, regex + from, len);
    memcpy(s + 4 + len, ")$", 3);
    return s;
}

int json_schema_regex(const char *regex, struct tok_buf *out, struct err *e)
{
    struct schema s = { .prefix = "regex", .e = e, .path = "#", .syntax = SCHEMA_XML,
                        .work = SCHEMA_PATTERN_WORK };
    struct strings set = { 0 };
    struct tok_buf first = { 0 };
    char what[160] = "", *whole = anchored(regex);
    int rc = whole ? schema_pattern(whole, &s.work, &set, what) : -ENOMEM;
    free(whole);
    if (rc)
        return err_set(e, rc, "%s", what[0] ? what : "out of memory for a pattern");
    if (!set.n_states)
        schema_fail(&s, -EINVAL, "no text matches the pattern");
    schema_put(&s, &first, "root ::= ");
    schema_put_strings(&s, &first, &set);
    schema_put(&s, &first, "\n");
    schema_put_buf(&s, &first, &s.rules);
    if (!s.rc && tok_buf_add(out, first.s, first.n))
        s.rc = err_set(e, -ENOMEM, "out of memory for a pattern");
    strings_finish(&set);
    tok_buf_finish(&s.rules);
    tok_buf_finish(&first);
    return s.rc;
}
