/* base/stdout.h: the end of a program whose results go to standard output: return stdout_finish("zinc", status); */
#ifndef ZINC_BASE_STDOUT_H
#define ZINC_BASE_STDOUT_H

/* Flushes stdout. Returns `status`, or 1 after one line on stderr when it was 0 and something could not be written. A reader
 * that went away is no failure. */
int stdout_finish(const char *program, int status);

#endif
