#include "model/quant_out.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

int quant_check_output(const char *path, uint64_t bytes, struct err *e)
{
    char dir[4096];
    struct stat st;
    struct statvfs fs;
    const char *slash = strrchr(path, '/');
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(e, -EINVAL, "%s: is no regular file, and would be replaced by one; name another path", path);
    snprintf(dir, sizeof dir, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    if (statvfs(dir, &fs) != 0 || access(dir, W_OK) != 0)
        return err_set(e, -errno, "%s: %s", dir, strerror(errno));
    uint64_t room = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (room < bytes)
        return err_set(e, -ENOSPC, "%s: the file takes %.1f MiB, %.1f MiB are free there; name another disk", path,
                       (double)bytes / 0x1p20, (double)room / 0x1p20);
    return 0;
}
