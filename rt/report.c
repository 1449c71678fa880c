#include "rt/report.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

FILE *report_file(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return fopen(path, "w");
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
        snprintf(folder, n, "%s/%s", place[i], name);
        if (mkdir(folder, 0755) && errno != EEXIST)
            continue;
        FILE *f = report_file(folder, "report.txt");
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
