/* rt/report.h: the folder that a failure of a device leaves behind, for people who ask what happened. */
#ifndef ZINC_RT_REPORT_H
#define ZINC_RT_REPORT_H

#include <stdio.h>

#include "graph/stream.h"

/* Makes ./zinc-report-DATE-PID, or that in $TMPDIR or /tmp where the current folder cannot be written; with a number
 * behind it where that name is taken already. Nobody else may look into it, and no link is followed. Its path goes to
 * folder[n], and the open file is its report.txt. NULL and an empty path: no place would take it. */
FILE *report_open(char *folder, size_t n);
/* Another file in it; NULL: it cannot be written. */
FILE *report_file(const char *folder, const char *name);
/* The stream, to be replayed and to be read. */
void report_stream(const char *folder, const struct stream *s);

#endif
