#include "server/openapi.h"

__asm__(".section .rodata\n"
        ".global zinc_openapi_begin\n"
        "zinc_openapi_begin:\n"
        ".incbin \"" ZINC_OPENAPI "\"\n"
        ".global zinc_openapi_end\n"
        "zinc_openapi_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char zinc_openapi_begin[], zinc_openapi_end[];

const char *openapi_json(size_t *n)
{
    *n = (size_t)(zinc_openapi_end - zinc_openapi_begin);
    return zinc_openapi_begin;
}
