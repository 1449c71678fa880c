/* server/openapi.h: the description of the server's API, share/openapi.json (OpenAPI 3.1), as GET /openapi.json answers it.
 * tests/unit/test_api_description.c holds it to the routes and to the fields that the server reads. */
#ifndef ZINC_SERVER_OPENAPI_H
#define ZINC_SERVER_OPENAPI_H

#include <stddef.h>

const char *openapi_json(size_t *n);

#endif
