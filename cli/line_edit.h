/* cli/line_edit.h: the terminal's half of cli/line.h, over libedit; where a build has none, edit_open says -ENOSYS. */
#ifndef ZINC_CLI_LINE_EDIT_H
#define ZINC_CLI_LINE_EDIT_H

#include "cli/line.h"

struct editor;

int edit_open(const struct line_opts *o, struct editor **out, struct err *e);
void edit_close(struct editor *ed); /* NULL is fine */
/* The text is malloc'ed and the caller's. */
enum line_how edit_read(struct editor *ed, const char *prompt, char **text, size_t *n);
void edit_remember(struct editor *ed, const char *text);

#endif
