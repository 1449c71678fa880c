/* cli/manual.h: the manual page, from the tables that parse the options (zinc help --man < doc/zinc.1.in > zinc.1). */
#ifndef ZINC_CLI_MANUAL_H
#define ZINC_CLI_MANUAL_H

#include <stdio.h>

/* Copies `in`; lines that are @synopsis@, @commands@ or @environment@ become what the tables say. An exit status. */
int manual_print(FILE *in, FILE *out);

#endif
