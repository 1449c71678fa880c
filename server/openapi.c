#include "server/openapi.h"

#include "base/embed.h"

EMBED_FILE(zinc_openapi, ZINC_OPENAPI);

extern const char zinc_openapi_begin[], zinc_openapi_end[];

const char *openapi_json(size_t *n)
{
    *n = (size_t)(zinc_openapi_end - zinc_openapi_begin);
    return zinc_openapi_begin;
}
