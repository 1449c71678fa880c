/* rt/amd/machine.c: for reports: the kernel, what amdgpu was loaded with, the card's firmware and its place on the bus. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/ckd.h"
#include "rt/amd/winsys.h"

enum { PATH_BYTES = 200, MAX_FILES = 256 };

/* include/uapi/drm/drm.h and amdgpu_drm.h of Linux; libdrm's headers need not be there. */
struct version { int major, minor, patch; size_t n_name; char *name; size_t n_date; char *date; size_t n_about; char *about; };
struct info { uint64_t out; uint32_t bytes, query, firmware, pad[3]; };
_Static_assert(sizeof(struct info) == 32, "kernel interface");
#define VERSION _IOWR('d', 0x00, struct version)
#define INFO    _IOW('d', 0x45, struct info)
enum { INFO_FW_VERSION = 0x0e };

/* The first line; false: it is not there, or not for this user. */
static bool read_line(const char *path, char *out, size_t n)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, n - 1);
    if (fd >= 0)
        close(fd);
    out[got > 0 ? got : 0] = 0;
    out[strcspn(out, "\n")] = 0;
    return got > 0 && out[0];
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* " PREFIXname=value" for each file of a folder, by name, without `ending`. */
static void print_folder(FILE *f, const char *folder, const char *prefix, const char *ending)
{
    DIR *d = opendir(folder);
    char *name[MAX_FILES];
    uint32_t n = 0;
    for (struct dirent *e; d && n < MAX_FILES && (e = readdir(d));)
        if (e->d_name[0] != '.' && (name[n] = strdup(e->d_name)))
            n++;
    if (d)
        closedir(d);
    qsort(name, n, sizeof *name, by_name);
    for (uint32_t i = 0; i < n; i++) {
        char path[PATH_BYTES], text[160];
        size_t len = strlen(name[i]), tail = strlen(ending);
        snprintf(path, sizeof path, "%s/%.80s", folder, name[i]);
        if (len > tail && strcmp(name[i] + len - tail, ending) == 0)
            name[i][len - tail] = 0;
        if (read_line(path, text, sizeof text))
            fprintf(f, " %s%s=%s", prefix, name[i], text);
        free(name[i]);
    }
}

/* Of the kernel's command line what is about the card; the rest is nobody's business. */
static void print_command_line(FILE *f)
{
    static const char *const about[] = { "amdgpu.", "amd_iommu=", "iommu=", "ttm.", "pcie_aspm", "pci=" };
    char text[4096], *save = NULL;
    if (!read_line("/proc/cmdline", text, sizeof text))
        return;
    fprintf(f, "command line:");
    for (char *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
        for (size_t i = 0; i < ARRAY_LEN(about); i++)
            if (strncmp(w, about[i], strlen(about[i])) == 0)
                fprintf(f, " %s", w);
    fprintf(f, "\n");
}

/* What the driver says through the render node: its version, and firmware that sysfs does not have. */
static void print_driver(const char *node, FILE *f)
{
    static const struct { uint32_t type; const char *name; } fw[] = { /* AMDGPU_INFO_FW_* */
        { 4, "ME" }, { 5, "PFP" }, { 8, "MEC" }, { 0x1a, "MES" }, { 7, "RLC" }, { 0x0b, "SDMA" }, { 0x0a, "SMC" } };
    struct version v = { 0 };
    int fd = open(node, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    fprintf(f, "firmware by the driver");
    if (!ioctl(fd, VERSION, &v))
        fprintf(f, " (%d.%d)", v.major, v.minor);
    fprintf(f, ":");
    for (size_t i = 0; i < ARRAY_LEN(fw); i++) {
        uint32_t version[2] = { 0 }; /* and a feature's */
        struct info q = { .out = (uintptr_t)version, .bytes = sizeof version, .query = INFO_FW_VERSION, .firmware = fw[i].type };
        if (!ioctl(fd, INFO, &q))
            fprintf(f, " %s %u", fw[i].name, version[0]);
    }
    fprintf(f, "\n");
    close(fd);
}

void amd_describe_machine(uint32_t render_minor, FILE *f)
{
    static const char *const device[] = { "device", "revision", "vbios_version", "current_link_speed", "current_link_width",
                                          "mem_info_vram_total", "mem_info_vis_vram_total", "mem_info_vram_used",
                                          "power_dpm_force_performance_level" };
    char path[PATH_BYTES], text[160];
    struct utsname u;
    fprintf(f, "kernel: %s", uname(&u) ? "unknown" : u.release);
    if (read_line("/sys/module/amdgpu/version", text, sizeof text)) /* of drivers that are not the kernel's own */
        fprintf(f, ", amdgpu %s", text);
    fprintf(f, "\n");
    print_command_line(f);
    fprintf(f, "parameters:");
    print_folder(f, "/sys/module/amdgpu/parameters", "amdgpu.", "");
    fprintf(f, "\nfirmware by sysfs:");
    snprintf(path, sizeof path, "/sys/class/drm/renderD%u/device/fw_version", render_minor);
    print_folder(f, path, "", "_fw_version");
    fprintf(f, "\n");
    snprintf(path, sizeof path, "/dev/dri/renderD%u", render_minor);
    print_driver(path, f);
    fprintf(f, "card:");
    for (size_t i = 0; i < ARRAY_LEN(device); i++) {
        snprintf(path, sizeof path, "/sys/class/drm/renderD%u/device/%s", render_minor, device[i]);
        if (read_line(path, text, sizeof text))
            fprintf(f, " %s=%s", device[i], text);
    }
    fprintf(f, "\n");
}
