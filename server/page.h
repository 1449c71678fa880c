/* server/page.h: the chat page, one HTML file that asks nobody else for anything. */
#ifndef ZINC_SERVER_PAGE_H
#define ZINC_SERVER_PAGE_H

#include <stddef.h>

const char *page_html(size_t *n);

#endif
