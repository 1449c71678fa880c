#include "rt/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

FILE *report_file(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fd >= 0 && !f)
        close(fd);
    return f;
}

/* A folder that was not there before and that nobody else may write to: in /tmp anybody could have put a link to
 * somewhere else under the name that is tried first. */
static bool make_folder(char *folder, size_t n, const char *place, const char *name)
{
    for (int i = 0; i < 100; i++) {
        if (i)
            snprintf(folder, n, "%s/%s-%d", place, name, i);
        else
            snprintf(folder, n, "%s/%s", place, name);
        if (mkdir(folder, 0700) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
    return false;
}

FILE *report_open(char *folder, size_t n)
{
    char name[64];
    struct tm tm;
    time_t now = time(NULL);
    localtime_r(&now, &tm);
    size_t len = strftime(name, sizeof name, "zinc-report-%Y%m%d-%H%M%S", &tm);
    snprintf(name + len, sizeof name - len, "-%d", (int)getpid());
    const char *tmp = getenv("TMPDIR"), *place[] = { ".", tmp ? tmp : "/tmp" };
    for (int i = 0; i < 2; i++) {
        FILE *f = make_folder(folder, n, place[i], name) ? report_file(folder, "report.txt") : NULL;
        if (f)
            return f;
    }
    folder[0] = 0;
    return NULL;
}

void report_stream(const char *folder, const struct stream *s)
{
    char path[300];
    snprintf(path, sizeof path, "%s/stream.zstream", folder);
    stream_save(s, path, NULL);
    FILE *f = report_file(folder, "stream.txt");
    if (!f)
        return;
    stream_dump(f, s);
    fclose(f);
}
