#include "base/stdout.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int stdout_finish(const char *program, int status)
{
    errno = 0;
    bool bad = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !bad)
        return status;
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
    int why = errno;
    bool unread = why == EPIPE || (poll(&out, 1, 0) == 1 && (out.revents & POLLERR)); /* the pipe has no reader any more */
    errno = why;
    if (unread || status != 0) /* a failure was told already */
        return status;
    fprintf(stderr, "%s: standard output could not be written%s%s\n", program, errno ? ": " : "",
            errno ? strerror(errno) : "");
    return 1;
}
