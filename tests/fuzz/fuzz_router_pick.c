/* Fuzzes what a router reads of requests: of a body that is JSON it finds what Jansson finds.
 *
 * fixed runs: 50000 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/json.h"
#include "server/router/pick.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *s = (const char *)data;
    struct pick p;
    char query[300], model[PICK_NAME];
    pick_read(s, size, &p);
    snprintf(query, sizeof query, "%.*s", (int)(size < 299 ? size : 299), s);
    CHECK(!pick_query(query, model) || model[0]);
    /* keys with escapes are not looked at */
    json_t *v = memmem(s, size, "\\", 1) ? NULL : json_read(s, size, 0, NULL, NULL);
    if (!json_is_object(v)) {
        json_decref(v);
        return 0;
    }
    json_t *m = json_object_get(v, "model"), *stream = json_object_get(v, "stream");
    if (!json_is_string(m) || json_string_length(m) < PICK_NAME)
        CHECK(strcmp(p.model, json_is_string(m) ? json_string_value(m) : "") == 0);
    CHECK(p.stream == (json_is_true(stream) ? 1 : json_is_false(stream) ? 0 : -1));
    json_decref(v);
    return 0;
}
