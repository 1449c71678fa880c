/* The files by which programs find the card: /dev/kfd, /dev/dri, the KFD topology and the card's PCI device, as real
 * files in a private directory. Paths of the card are rewritten to it (interpose.c). It is made at the first such
 * path and removed at exit; what a killed process left is removed by the next one. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "tools/amdsim/kmd/kmd.h"

#define PCI_ROOT "/sys/devices/pci0000:a0"
#define PCI_SLOT "0000:a3:00.0"
#define PCI_DEV PCI_ROOT "/0000:a0:01.1/" PCI_SLOT
#define PCI_LINK "/sys/bus/pci/devices/" PCI_SLOT
#define TOPOLOGY "/sys/devices/virtual/kfd/kfd/topology"
#define GPU_NODE TOPOLOGY "/nodes/1"
enum { LOCATION_ID = 0xa300, KFD_MAJOR = 235, DRM_MAJOR = 226 };

static const char *const prefixes[] = {
    "/dev/kfd", "/dev/dri", "/sys/devices/virtual/kfd", "/sys/class/kfd", "/sys/class/drm", "/sys/dev/char/226:0",
    "/sys/dev/char/226:128", PCI_LINK, PCI_ROOT, "/sys/module/amdgpu",
};
static struct node {
    const char *path;
    enum file_kind kind;
    uint32_t major, minor;
    uint64_t ino;       /* of the file that stands for it in the tree */
} nodes[] = {
    { "/dev/kfd", FILE_KFD, KFD_MAJOR, 0, 0 },
    { "/dev/dri/renderD128", FILE_RENDER, DRM_MAJOR, KMD_RENDER_MINOR, 0 },
    { "/dev/dri/card0", FILE_CARD, DRM_MAJOR, 0, 0 },
};

enum { N_NODES = sizeof nodes / sizeof nodes[0] };

static struct {
    pthread_mutex_t lock;
    char root[200];
    uint64_t dev;
    int pid;            /* of the process that made it */
    int lock_fd;        /* locked while it is in use   */
    bool failed;
} tree = { .lock = PTHREAD_MUTEX_INITIALIZER, .lock_fd = -1 };

bool sysfs_is_ours(const char *path)
{
    if (!path || path[0] != '/' || (path[1] != 'd' && path[1] != 's'))
        return false;
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i]);
        if (strncmp(path, prefixes[i], n) == 0 && (path[n] == 0 || path[n] == '/'))
            return true;
    }
    return false;
}

bool sysfs_node_of(uint64_t dev, uint64_t ino, enum file_kind *kind)
{
    for (size_t i = 0; tree.pid && dev == tree.dev && i < N_NODES; i++)
        if (nodes[i].ino == ino && ino) {
            *kind = nodes[i].kind;
            return true;
        }
    return false;
}

uint64_t sysfs_rdev(enum file_kind kind)
{
    for (size_t i = 0; i < N_NODES; i++)
        if (nodes[i].kind == kind)
            return makedev(nodes[i].major, nodes[i].minor);
    return 0;
}

/* ---- writing the tree ---- */

static void make_parents(const char *full)
{
    char dir[512];
    snprintf(dir, sizeof dir, "%s", full);
    for (char *p = dir + strlen(tree.root) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(dir, 0755);
        *p = '/';
    }
}

__attribute__((format(printf, 2, 3))) static void put(const char *path, const char *fmt, ...)
{
    char full[512], text[4096];
    snprintf(full, sizeof full, "%s%s", tree.root, path);
    make_parents(full);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, (size_t)n) != n)
        tree.failed = true;
    if (fd >= 0)
        close(fd);
}

static void put_link(const char *path, const char *target)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", tree.root, path);
    make_parents(full);
    if (symlink(target, full) != 0 && errno != EEXIST)
        tree.failed = true;
}

static void put_dir(const char *path)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s/", tree.root, path);
    make_parents(full);
}

static void put_cpu_node(void)
{
    const char *at = TOPOLOGY "/nodes/0";
    char path[256];
    long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    snprintf(path, sizeof path, "%s/gpu_id", at);
    put(path, "0\n");
    snprintf(path, sizeof path, "%s/name", at);
    put(path, "\n");
    snprintf(path, sizeof path, "%s/properties", at);
    put(path, "cpu_cores_count %ld\nsimd_count 0\nmem_banks_count 1\ncaches_count 0\nio_links_count 1\n"
              "p2p_links_count 0\ncpu_core_id_base 0\nsimd_id_base 0\nmax_waves_per_simd 0\nlds_size_in_kb 0\n"
              "gds_size_in_kb 0\nnum_gws 0\nwave_front_size 0\narray_count 0\nsimd_arrays_per_engine 0\n"
              "cu_per_simd_array 0\nsimd_per_cu 0\nmax_slots_scratch_cu 0\ngfx_target_version 0\nvendor_id 0\n"
              "device_id 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\nhive_id 0\nnum_sdma_engines 0\n"
              "num_sdma_xgmi_engines 0\nnum_sdma_queues_per_engine 0\nnum_cp_queues 0\n"
              "max_engine_clk_ccompute 3000\n", n_cpus);
    snprintf(path, sizeof path, "%s/mem_banks/0/properties", at);
    put(path, "heap_type 0\nsize_in_bytes %llu\nflags 0\nwidth 64\nmem_clk_max 3200\n", (unsigned long long)ram);
    snprintf(path, sizeof path, "%s/io_links/0/properties", at);
    put(path, "type 2\nversion_major 0\nversion_minor 0\nnode_from 0\nnode_to 1\nweight 20\nmin_latency 0\n"
              "max_latency 0\nmin_bandwidth 312\nmax_bandwidth 64000\nrecommended_transfer_size 0\nflags 1\n");
    put_dir(TOPOLOGY "/nodes/0/caches");
    put_dir(TOPOLOGY "/nodes/0/p2p_links");
}

static void put_gpu_properties(const struct chip *c, int n_banks)
{
    uint32_t arrays = c->n_se * c->arrays_per_se, target = c->gfx_target_version, device = c->device_id;
    if (kmd_injected(KMD_INJECT_UNSUPPORTED)) {
        target = 100300;
        device = 0x73bf;
    }
    char save[128] = "";
    struct save_area a = kfd_save_area();
    if (kmd_options()->kernel >= 6018 && !kmd_injected(KMD_INJECT_NO_CWSR_KEYS))
        snprintf(save, sizeof save, "cwsr_size %u\nctl_stack_size %u\n", a.cwsr_bytes, a.ctl_stack_bytes);
    put(GPU_NODE "/properties",
        "cpu_cores_count 0\nsimd_count %u\nmem_banks_count %d\ncaches_count 3\nio_links_count 1\np2p_links_count 0\n"
        "cpu_core_id_base 0\nsimd_id_base 2147487744\nmax_waves_per_simd %u\nlds_size_in_kb %u\ngds_size_in_kb 0\n"
        "num_gws 64\nwave_front_size 32\narray_count %u\nsimd_arrays_per_engine %u\ncu_per_simd_array %u\n"
        "simd_per_cu %u\nmax_slots_scratch_cu 32\ngfx_target_version %u\nvendor_id %u\ndevice_id %u\n"
        "location_id %u\ndomain 0\ndrm_render_minor %u\nhive_id 0\nnum_sdma_engines %u\nnum_sdma_xgmi_engines 0\n"
        "num_sdma_queues_per_engine %u\nnum_cp_queues %u\nmax_engine_clk_fcompute %u\nlocal_mem_size 0\n"
        "fw_version %u\ncapability 1745068672\ncapability2 0\ndebug_prop 1495\nsdma_fw_version %u\n"
        "unique_id 5855401213104881665\nnum_xcc 1\nfamily_id %u\n%smax_engine_clk_ccompute 3000\n",
        c->n_cu * c->simd_per_cu, n_banks, c->waves_per_simd, c->lds_kib, arrays, c->arrays_per_se, c->n_cu / arrays,
        c->simd_per_cu, target, c->vendor_id, device, (unsigned)LOCATION_ID, (unsigned)KMD_RENDER_MINOR, c->n_sdma,
        c->sdma_queues_per_engine, c->n_cp_queues, c->max_clock_mhz, kmd_options()->firmware[KMD_FW_MEC] & 0x3ff, c->gfx12 ? 14u : 25u,
        c->family, save);
}

static void put_gpu_node(const struct chip *c)
{
    const struct kmd_options *o = kmd_options();
    put(GPU_NODE "/gpu_id", "%u\n", (unsigned)KMD_GPU_ID);
    put(GPU_NODE "/name", "ip discovery\n");
    uint64_t visible = o->small_bar && o->vram_bytes > 256u << 20 ? 256u << 20 : o->vram_bytes;
    int n_banks = 0;
    char path[256];
    uint64_t sizes[2] = { visible, o->vram_bytes - visible };
    for (int i = 0; i < 2; i++) { /* heap 1: the host sees it; 2: it does not */
        if (!sizes[i])
            continue;
        snprintf(path, sizeof path, GPU_NODE "/mem_banks/%d/properties", n_banks++);
        put(path, "heap_type %d\nsize_in_bytes %llu\nflags 0\nwidth %u\nmem_clk_max %u\n", i + 1,
            (unsigned long long)sizes[i], c->vram_width, c->mem_clock_mhz);
    }
    put_gpu_properties(c, n_banks);
    const struct { uint32_t level, kib, line; } caches[3] = {
        { 1, 32, 128 }, { 2, c->gfx12 ? 8192 : 6144, 128 }, { 3, c->gfx12 ? 65536 : 98304, 64 },
    };
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, GPU_NODE "/caches/%d/properties", i);
        put(path, "processor_id_low 2147487744\nlevel %u\nsize %u\ncache_line_size %u\ncache_lines_per_tag 1\n"
                  "association 16\nlatency 1\ntype 9\nsibling_map 1,0,0,0\n", caches[i].level, caches[i].kib,
            caches[i].line);
    }
    put(GPU_NODE "/io_links/0/properties",
        "type 2\nversion_major 0\nversion_minor 0\nnode_from 1\nnode_to 0\nweight 20\nmin_latency 0\nmax_latency 0\n"
        "min_bandwidth 312\nmax_bandwidth 64000\nrecommended_transfer_size 0\nflags 1\n");
    put_dir(GPU_NODE "/p2p_links");
}

static void put_ip(uint32_t hwid, const char *name, uint32_t major_v, uint32_t minor_v, uint32_t rev)
{
    char path[256], target[32];
    const uint32_t v[3] = { major_v, minor_v, rev };
    static const char *const key[3] = { "major", "minor", "revision" };
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, PCI_DEV "/ip_discovery/die/0/%u/0/%s", hwid, key[i]);
        put(path, "%u\n", v[i]);
    }
    snprintf(path, sizeof path, PCI_DEV "/ip_discovery/die/0/%u/0/hw_id", hwid);
    put(path, "%u\n", hwid);
    snprintf(path, sizeof path, PCI_DEV "/ip_discovery/die/0/%s", name);
    snprintf(target, sizeof target, "%u", hwid);
    put_link(path, target);
}

static void put_pci_device(const struct chip *c)
{
    put(PCI_DEV "/vendor", "0x%04x\n", c->vendor_id);
    put(PCI_DEV "/device", "0x%04x\n", c->device_id);
    put(PCI_DEV "/subsystem_vendor", "0x1002\n");
    put(PCI_DEV "/subsystem_device", "0x0e0d\n");
    put(PCI_DEV "/revision", "0xc0\n");
    put(PCI_DEV "/class", "0x030000\n");
    put(PCI_DEV "/numa_node", "-1\n");
    static const struct { const char *name; enum kmd_firmware which; } fw[] = { /* FW_VERSION_ATTR in amdgpu_ucode.c */
        { "me", KMD_FW_ME }, { "pfp", KMD_FW_PFP }, { "mec", KMD_FW_MEC } };
    for (size_t i = 0; i < sizeof fw / sizeof fw[0]; i++) {
        char path[256];
        snprintf(path, sizeof path, PCI_DEV "/fw_version/%s_fw_version", fw[i].name);
        put(path, "0x%08x\n", kmd_options()->firmware[fw[i].which]);
    }
    put(PCI_DEV "/mem_info_vram_total", "%llu\n", (unsigned long long)kmd_options()->vram_bytes);
    put(PCI_DEV "/power_dpm_force_performance_level", "auto\n");
    put(PCI_DEV "/uevent", "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=%04X:%04X\nPCI_SUBSYS_ID=1002:0E0D\n"
                           "PCI_SLOT_NAME=" PCI_SLOT "\n", c->vendor_id, c->device_id);
    put_link(PCI_DEV "/subsystem", "../../../../bus/pci");
    put_link(PCI_DEV "/driver", "../../../../bus/pci/drivers/amdgpu");
    put_dir("/sys/bus/pci/drivers/amdgpu");
    put_link(PCI_LINK, "../../../devices/pci0000:a0/0000:a0:01.1/" PCI_SLOT);
    put_ip(11, "GC", c->gc_major, c->gc_minor, c->gc_rev);
    put_ip(42, "SDMA0", c->sdma_major, c->sdma_minor, c->sdma_rev);
    put_ip(108, "NBIF", c->nbio_major, c->nbio_minor, c->nbio_rev);
    static const struct { const char *name; uint32_t minor; } drm[] = { { "card0", 0 }, { "renderD128", 128 } };
    for (int i = 0; i < 2; i++) {
        char path[256], target[256];
        snprintf(path, sizeof path, PCI_DEV "/drm/%s/dev", drm[i].name);
        put(path, "226:%u\n", drm[i].minor);
        snprintf(path, sizeof path, PCI_DEV "/drm/%s/uevent", drm[i].name);
        put(path, "MAJOR=226\nMINOR=%u\nDEVNAME=dri/%s\nDEVTYPE=drm_minor\n", drm[i].minor, drm[i].name);
        snprintf(path, sizeof path, PCI_DEV "/drm/%s/device", drm[i].name);
        put_link(path, "../../../" PCI_SLOT);
        snprintf(path, sizeof path, "/sys/class/drm/%s", drm[i].name);
        snprintf(target, sizeof target, "../../devices/pci0000:a0/0000:a0:01.1/" PCI_SLOT "/drm/%s", drm[i].name);
        put_link(path, target);
        snprintf(path, sizeof path, "/sys/dev/char/226:%u", drm[i].minor);
        put_link(path, target);
    }
    put("/sys/class/drm/version", "drm 1.1.0 20060810\n");
}

/* Of those that have /dev/kfd open (kfd_procfs in kfd_process.c); this one is listed from the start. */
static void put_process(int pid)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/virtual/kfd/kfd/proc/%d/pasid", pid);
    put(path, "%d\n", 0x8000 + (pid != 1));
}

static void put_all(void)
{
    const struct chip *c = kmd_options()->chip;
    if (!kmd_injected(KMD_INJECT_NO_KFD)) {
        put(TOPOLOGY "/generation_id", "2\n");
        put(TOPOLOGY "/system_properties", "platform_oem 2314885531374736960\nplatform_id 35322351861825\n"
                                           "platform_rev 1\n");
        put_cpu_node();
        put_gpu_node(c);
        put("/sys/devices/virtual/kfd/kfd/dev", "%d:0\n", KFD_MAJOR);
        put_link("/sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd");
        put_process((int)getpid());
        if (kmd_injected(KMD_INJECT_SECOND_PROCESS))
            put_process(1);
        put("/dev/kfd", "%s", "");
    }
    put_pci_device(c);
    put("/sys/module/amdgpu/initstate", "live\n");
    put("/sys/module/amdgpu/parameters/cwsr_enable", kmd_injected(KMD_INJECT_CWSR_OFF) ? "0\n" : "1\n");
    put("/sys/module/amdgpu/parameters/lockup_timeout", "%llu\n", (unsigned long long)kmd_options()->lockup_ms);
    if (kmd_options()->kernel >= 6016)
        put("/sys/module/amdgpu/parameters/user_queue", "%d\n",
            kmd_options()->user_queues == KMD_USERQ_OFF ? -1 : (int)kmd_options()->user_queues);
    put("/dev/dri/renderD128", "%s", "");
    put("/dev/dri/card0", "%s", "");
    put_link("/dev/dri/by-path/pci-" PCI_SLOT "-render", "../renderD128");
    put_link("/dev/dri/by-path/pci-" PCI_SLOT "-card", "../card0");
}

/* ---- its life ---- */

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *w)
{
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

static int lock_tree(const char *root, bool create)
{
    char path[600];
    snprintf(path, sizeof path, "%s/.lock", root);
    int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0644);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Trees whose lock nobody holds belong to processes that were killed. */
static void sweep(const char *tmp)
{
    DIR *d = opendir(tmp);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[512];
        if (strncmp(e->d_name, "amdsim-", 7) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", tmp, e->d_name);
        int fd = lock_tree(path, false);
        if (fd >= 0) {
            nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
            close(fd);
        }
    }
    if (d)
        closedir(d);
}

/* An empty tree in a folder, locked before it has the name that others look for. */
static bool make_root(const char *in)
{
    char made[sizeof tree.root];
    snprintf(made, sizeof made, "%s/.amdsim-XXXXXX", in);
    if (!mkdtemp(made))
        return false;
    snprintf(tree.root, sizeof tree.root, "%s/%s", in, made + strlen(in) + 2);
    tree.lock_fd = lock_tree(made, true);
    if (rename(made, tree.root) == 0)
        return true;
    int why = errno; /* for the message */
    close(tree.lock_fd);
    tree.lock_fd = -1;
    nftw(made, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    errno = why;
    return false;
}

/* In memory where that is: the tree has a hundred files, which a disk's file system takes longer for than all else here. */
static bool make_tree(void)
{
    const char *told = getenv("AMDSIM_DIR"), *tmp = getenv("TMPDIR");
    const char *const in[] = { told ? told : "/dev/shm", told ? told : tmp, told ? told : "/tmp" };
    tree.failed = true;
    for (size_t i = 0; i < sizeof in / sizeof in[0] && tree.failed; i++) {
        if (!in[i] || !*in[i] || strlen(in[i]) > 100)
            continue;
        sweep(in[i]);
        tree.failed = !make_root(in[i]);
    }
    if (!tree.failed)
        put_all();
    for (size_t i = 0; i < N_NODES && !tree.failed; i++) {
        char path[256];
        struct stat st;
        snprintf(path, sizeof path, "%s%s", tree.root, nodes[i].path);
        nodes[i].ino = stat(path, &st) == 0 ? st.st_ino : 0;
        tree.dev = nodes[i].ino ? st.st_dev : tree.dev;
    }
    tree.pid = getpid();
    if (tree.failed)
        kmd_say("the directory with the card's sysfs could not be written under %s: %s; set AMDSIM_DIR",
                told ? told : "/dev/shm, TMPDIR and /tmp", strerror(errno));
    return !tree.failed;
}

const char *sysfs_root(void)
{
    if (tree.pid == getpid())
        return tree.failed ? NULL : tree.root;
    if (tree.pid) /* a forked child: its own tree, for the parent removes its tree when it ends */
        pthread_mutex_init(&tree.lock, NULL);
    pthread_mutex_lock(&tree.lock);
    bool ok = tree.pid == getpid() ? !tree.failed : make_tree();
    pthread_mutex_unlock(&tree.lock);
    return ok ? tree.root : NULL;
}

void sysfs_remove(void)
{
    if (tree.pid != getpid() || tree.failed)
        return;
    nftw(tree.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    close(tree.lock_fd);
    tree.pid = 0;
}

bool sysfs_path(const char *path, char *buf, uint64_t size)
{
    const char *root = sysfs_is_ours(path) ? sysfs_root() : NULL;
    return root && (uint64_t)snprintf(buf, size, "%s%s", root, path) < size;
}
