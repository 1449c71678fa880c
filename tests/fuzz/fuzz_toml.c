/* Fuzzes the lists of models: nothing crashes, what is read is whole, and an error has a line of text.
 *
 * fixed runs: 50000 */
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "base/toml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct toml t;
    struct err e = { 0 };
    if (toml_parse((const char *)data, size, "x", &t, &e)) {
        CHECK(e.code && strlen(e.msg) > 5);
        return 0;
    }
    uint32_t values = 0;
    for (uint32_t i = 0; i < t.n; i++) {
        const struct toml_pair *p = &t.pair[i];
        CHECK(p->table < t.n_tables && p->line && p->key[0] && (p->is_array || p->n_values == 1));
        for (uint32_t k = 0; k < p->n_values; k++, values++)
            CHECK(p->kind != TOML_BOOL || strcmp(p->value[k], "true") == 0 || strcmp(p->value[k], "false") == 0);
        for (uint32_t k = 0; k < i; k++)
            CHECK(t.pair[k].table != p->table || strcmp(t.pair[k].key, p->key) != 0);
    }
    CHECK(values == t.n_values);
    toml_clear(&t);
    return 0;
}
