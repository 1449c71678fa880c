#include "server/page.h"

#include "base/embed.h"

EMBED_FILE(zinc_page, ZINC_PAGE);

extern const char zinc_page_begin[], zinc_page_end[];

const char *page_html(size_t *n)
{
    *n = (size_t)(zinc_page_end - zinc_page_begin);
    return zinc_page_begin;
}
