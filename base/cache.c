#include "base/cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool cache_path(const char *folder, const char *name, char path[CACHE_PATH])
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (folder && strcmp(folder, "none") == 0)
        return false;
    int len = folder ? snprintf(path, CACHE_PATH, "%s/%s", folder, name)
              : xdg && *xdg ? snprintf(path, CACHE_PATH, "%s/zinc/%s", xdg, name)
              : home && *home ? snprintf(path, CACHE_PATH, "%s/.cache/zinc/%s", home, name) : -1;
    return len > 0 && len < CACHE_PATH;
}

static void make_folders(const char *path)
{
    char part[CACHE_PATH];
    snprintf(part, sizeof part, "%s", path);
    for (char *p = part + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(part, 0755);
            *p = '/';
        }
}

bool cache_write(const char *path, const void *head, size_t n_head, const void *data, size_t n)
{
    char tmp[CACHE_PATH + 16];
    make_folders(path);
    snprintf(tmp, sizeof tmp, "%s.%d", path, (int)getpid());
    FILE *f = fopen(tmp, "wb");
    if (!f)
        return false;
    bool ok = (!n_head || fwrite(head, 1, n_head, f) == n_head) && fwrite(data, 1, n, f) == n;
    ok = fclose(f) == 0 && ok && rename(tmp, path) == 0;
    if (!ok)
        unlink(tmp);
    return ok;
}
