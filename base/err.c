#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A message is one line on a terminal, whatever bytes a hostile file put into the names it quotes. */
static void make_printable(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            *s = '?';
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
    if (!e)
        return code;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof e->msg, fmt, ap);
    va_end(ap);
    make_printable(e->msg);
    e->code = code;
    return code;
}

void err_context(struct err *e, const char *fmt, ...)
{
    if (!e)
        return;
    char head[sizeof e->msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(head, sizeof head - 2, fmt, ap);
    va_end(ap);
    make_printable(head);
    strcat(head, ": ");
    /* What does not fit behind the context is cut from the end of the message. */
    size_t n = strlen(head), tail = strlen(e->msg);
    if (tail > sizeof e->msg - 1 - n)
        tail = sizeof e->msg - 1 - n;
    memmove(e->msg + n, e->msg, tail);
    memcpy(e->msg, head, n);
    e->msg[n + tail] = 0;
}
