/* cli/line.h
 * Lines from a person or a pipe. On a terminal, where the build has libedit: editing, history, completion, a paste as one
 * piece of text (bracketed paste), several lines by Alt-Enter. Otherwise as they come.
 *
 *     line_open(&(struct line_opts){ .history = "/home/a/.local/state/zinc/chat_history" }, &l, &e);
 *     while ((how = line_read(l, "> ", &text, &n)) != LINE_END) ...
 *     line_close(l); */
#ifndef ZINC_CLI_LINE_H
#define ZINC_CLI_LINE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

enum line_how {
    LINE_TEXT,        /* *text [*n], without the end of the line; it may hold newlines; valid until the next call */
    LINE_END,         /* no more                                                                                  */
    LINE_INTERRUPTED, /* Ctrl-C: what was typed is forgotten                                                       */
};

struct line_opts {
    const char *history;            /* file that keeps lines between runs; NULL: they live as long as the program  */
    const char *const *commands;    /* ends with NULL: completed at the beginning of a line; behind one, file names */
};

struct line_reader;

int line_open(const struct line_opts *o, struct line_reader **out, struct err *e);
void line_close(struct line_reader *l); /* NULL is fine; saves the history */

/* Standard input is a terminal. */
bool line_is_terminal(const struct line_reader *l);
/* `prompt` is shown on stderr, on a terminal alone; it must be ASCII. */
enum line_how line_read(struct line_reader *l, const char *prompt, char **text, size_t *n);
/* Adds a message to what Up brings back. */
void line_remember(struct line_reader *l, const char *text);

/* "$XDG_STATE_HOME/zinc/NAME", else "~/.local/state/zinc/NAME", its folder made; malloc'ed. NULL: no such place.
 * Source: XDG Base Directory Specification, https://specifications.freedesktop.org/basedir-spec/latest/ */
char *line_state_file(const char *name);

#endif
