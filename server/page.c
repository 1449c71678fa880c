#include "server/page.h"

__asm__(".section .rodata\n"
        ".global zinc_page_begin\n"
        "zinc_page_begin:\n"
        ".incbin \"" ZINC_PAGE "\"\n"
        ".global zinc_page_end\n"
        "zinc_page_end:\n"
        ".byte 0\n"
        ".previous\n");

extern const char zinc_page_begin[], zinc_page_end[];

const char *page_html(size_t *n)
{
    *n = (size_t)(zinc_page_end - zinc_page_begin);
    return zinc_page_begin;
}
